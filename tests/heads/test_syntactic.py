"""Syntactic accuracy of heads that point along known arcs."""

import known_heads as planted
import pytest
import torch

from headbook.heads.syntactic import SyntacticAccuracy
from headbook.models.capture import Point
from headbook.text.trees import RELATION_DIRECTIONS, RELATIONS, Direction
from headbook.types import Kind


def accuracy(trees, tape, batch) -> torch.Tensor:
    measure = SyntacticAccuracy(trees)
    measure.update(tape, batch)
    return measure.compute()


def partners(corpus, batch) -> dict:
    return planted.recording([planted.at_partner(batch, corpus.trees, at) for at in range(8)])


def test_pointing_at_the_partner_is_exactly_right_and_nothing_else_is(ladder) -> None:
    batch = ladder.batch(list(range(20)))
    found = accuracy(ladder.trees, partners(ladder, batch), batch)[0]
    assert torch.equal(found, torch.eye(8).double())


@pytest.mark.parametrize("sentence", [0, 4, 8, 12, 16])
def test_every_length(ladder, sentence) -> None:
    batch = ladder.batch([sentence + step for step in range(4)], extra=2)
    found = accuracy(ladder.trees, partners(ladder, batch), batch)[0]
    words = [int(ladder.trees[sentence + step].pieces.max()) + 1 for step in range(4)]
    counted = ~found.diagonal().isnan()
    assert counted.any() == any(count > 1 for count in words)
    assert (found.diagonal()[counted] == 1).all()


def test_a_transposed_head_is_found_out(ladder) -> None:
    batch = ladder.batch(list(range(8, 20)))
    turned = {
        address: [layer.mT for layer in layers]
        for address, layers in partners(ladder, batch).items()
    }
    found = accuracy(ladder.trees, turned, batch)[0]
    assert (found.diagonal() < 0.5).all()


def test_heads_that_know_no_syntax_score_nothing(ladder) -> None:
    batch = ladder.batch(list(range(8, 20)))
    heads = [planted.uniform(batch), planted.at_eos(batch), planted.at_offset(batch, 0)]
    found = accuracy(ladder.trees, planted.recording(heads), batch)[0]
    assert (found[1:] == 0).all()
    # a uniform head looks most at the longest word, where there is one longest; otherwise ties
    assert (found[0] < 0.5).all()


def test_eos_is_left_out_before_the_argmax(ladder) -> None:
    batch = ladder.batch(list(range(8, 20)))
    heads = [planted.at_partner(batch, ladder.trees, at) for at in range(8)]
    parked = planted.recording([0.4 * head + 0.6 * planted.at_eos(batch) for head in heads])
    assert (accuracy(ladder.trees, parked, batch)[0].diagonal() == 1).all()


def test_weights_after_dropout_are_found_out(ladder) -> None:
    batch = ladder.batch(list(range(8, 20)))
    torch.manual_seed(0)
    dropped = {
        address: [torch.nn.functional.dropout(layer, 0.5) for layer in layers]
        for address, layers in partners(ladder, batch).items()
    }
    assert accuracy(ladder.trees, dropped, batch)[0].diagonal().mean() < 0.95


def _by_hand(weights, tree):
    """(column, hit) of every question of one sentence and head, in loops."""
    pieces, end = tree.pieces.tolist(), len(tree.pieces) - 1
    words = range(max(pieces) + 1)
    belong = {word: [at for at in range(end) if pieces[at] == word] for word in words}
    for relation, dependent, head in tree.arcs.tolist():
        for direction in Direction:
            query, partner = dependent, head
            if direction is Direction.HEAD_TO_DEPENDENT:
                query, partner = head, dependent
            column = RELATION_DIRECTIONS.index((RELATIONS[relation], direction))
            scores = [
                sum(float(weights[i, j]) for i in belong[query] for j in belong[word])
                for word in words
            ]
            yield column, max(words, key=scores.__getitem__) == partner


def test_agrees_with_loops(corpus, attention) -> None:
    batch = corpus.batch(list(range(60)))
    tape = attention(batch, layers=1, heads=1)
    hits, counted = torch.zeros(8).double(), torch.zeros(8).double()
    for row in range(60):
        weights = tape[Kind.ENCODER, Point.WEIGHTS][0][row, 0]
        for column, hit in _by_hand(weights, corpus.trees[row]):
            hits[column] += hit
            counted[column] += 1
    found = accuracy(corpus.trees, tape, batch)[0, 0]
    assert counted.min() > 0 and torch.equal(found, hits / counted)
    assert 0.02 < found.mean() < 0.6


def test_a_perfect_column_and_an_absent_one_are_told_apart(ladder) -> None:
    """A relation that does not occur is NaN; one without any error is 1 and not dropped."""
    batch = ladder.batch([4, 5])
    found = accuracy(ladder.trees, partners(ladder, batch), batch)[0].diagonal()
    present = {int(arc[0]) for at in (4, 5) for arc in ladder.trees[at].arcs}
    for relation in range(4):
        pair = found[2 * relation : 2 * relation + 2]
        assert (pair == 1).all() if relation in present else pair.isnan().all()
