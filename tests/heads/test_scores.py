"""Scores of heads that do one thing exactly, loops that count the same, and what each owes."""

from collections.abc import Callable
from functools import partial

import known_heads as planted
import pytest
import torch

from headbook.heads.measure import Measure, sums
from headbook.heads.scores import (
    REACH,
    confidence,
    positional,
    ranks_in,
    rare,
    rare_chance,
    special,
    syntactic,
)
from headbook.models.capture import Point
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, Batch, collate
from headbook.text.trees import RELATION_DIRECTIONS, Direction
from headbook.types import Kind

RANKS = torch.arange(1000)  # a piece's id is its rank


def score(measure: Measure, tape: dict, batch: Batch) -> torch.Tensor:
    """Of the heads of the first layer."""
    return sums({"": measure}, [(tape, batch)], 0)[""].ratio()[0]


def test_weight_on_no_key_counts_as_weight_on_special_tokens() -> None:
    batch = collate([([5, 6, 7, EOS], [EOS])], [0])
    tape = planted.recording([0.5 * planted.at_first(batch)])
    assert score(special, tape, batch).tolist() == [0.5]


@pytest.mark.parametrize("kind", list(Kind))
def test_loops_count_the_same(corpus, attention, kind) -> None:
    batch, tops = corpus.batch([0, 4, 8, 12, 16, 20, 21, 22]), []
    tape = attention(batch, kind, layers=1, heads=2)
    hits, counted = torch.zeros(2, 2 * REACH + 1), torch.zeros(2 * REACH + 1)
    for row in range(8):
        source, target = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        first = int(kind is Kind.DECODER)
        end = target if kind is Kind.DECODER else source - 1
        stop = {Kind.ENCODER: source - 1, Kind.DECODER: target, Kind.CROSS: target - 1}[kind]
        for query in range(first, stop):
            keys = range(first, query + 1 if kind is Kind.DECODER else end)
            for offset in range(-REACH, REACH + 1):
                counted[offset + REACH] += query + offset in keys
            for head in range(2):
                weights = tape[kind, Point.WEIGHTS][0][row, head, query]
                key = max(keys, key=lambda key, row=weights: row[key])
                tops.append(weights[key])
                if abs(key - query) <= REACH:
                    hits[head, key - query + REACH] += 1
    found = score(partial(positional, kind=kind), tape, batch)
    assert torch.allclose(found, (hits / counted).double(), equal_nan=True)
    mean = torch.stack(tops).view(-1, 2).double().mean(0)
    assert torch.allclose(score(partial(confidence, kind=kind), tape, batch), mean)


# ------------------------------------------------------------------ rare words


def test_places_of_rare_words_by_hand() -> None:
    """Own token, first token, all tokens. The rarest stands twice, the next once; the second
    sentence has frequent tokens alone, and EOS is never rare."""
    ranks = RANKS.clone()
    ranks[EOS] = 10_000
    batch = collate([([900, 700, 20, 900, EOS], [3, EOS]), ([499, 7, EOS], [3, EOS])], [0, 1])
    heads = [planted.at_offset(batch, 0), planted.at_first(batch), planted.uniform(batch)]
    found = score(partial(rare, ranks=ranks), planted.recording(heads), batch)
    assert found.tolist() == [[2 / 4, 3 / 4], [1, 1], [0, 0]]
    _, asked = rare(planted.recording(heads), batch, ranks)
    assert asked[:, 0, 0].tolist() == [[4, 4], [0, 0]]


def test_a_sentence_points_where_its_queries_do_together() -> None:
    batch = collate([([900, 7, 8, EOS], [3, EOS])], [0])
    # one query is sure of the rarest, two lean on the second token: 1.0 against 2 * 0.4
    weights = torch.tensor([[1.0, 0, 0, 0], [0.3, 0.4, 0.3, 0], [0.3, 0.4, 0.3, 0], [0, 0, 0, 1.0]])
    tape = planted.recording([weights[None]])
    assert score(partial(rare, ranks=RANKS), tape, batch)[0, 0] == pytest.approx(1 / 3)
    assert score(partial(rare, ranks=RANKS, by_sentence=True), tape, batch)[0, 0] == 1


def test_chance_is_one_over_the_tokens() -> None:
    batch = collate([([900, 7, 8, 9, EOS], [3, EOS]), ([900, 7, EOS], [3, EOS])], [0, 1])
    for by_sentence, expected in ((False, [2 / 6, 4 / 6]), (True, [0.375, 0.75])):
        measure = partial(rare_chance, ranks=RANKS, by_sentence=by_sentence)
        # four queries at 1/4 and two at 1/2; then one sentence each
        assert score(measure, {}, batch)[0].tolist() == pytest.approx(expected)


def test_ranks_are_those_of_the_text_without_special_tokens() -> None:
    batch = collate([([5, 5, 4, EOS], [EOS]), ([5, EOS], [EOS])], [0, 1])
    assert ranks_in([batch])[[5, 4]].tolist() == [0, 1]


def test_rare_words_of_a_decoder_are_among_those_it_has_read() -> None:
    """900, 20, 700 and 8 behind the start token; each looks at itself."""
    batch = collate([([EOS], [900, 20, 700, 8, EOS])], [0])
    tape = {(Kind.DECODER, Point.WEIGHTS): [torch.eye(5)[None, None]]}
    found = score(partial(rare, ranks=RANKS, kind=Kind.DECODER), tape, batch)
    assert found.tolist() == [[1 / 4, 3 / 4]]
    chance = score(partial(rare_chance, ranks=RANKS, kind=Kind.DECODER), tape, batch)[0]
    expected = [(1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, (1 + 1 + 2 / 3 + 2 / 4) / 4]
    assert chance.tolist() == pytest.approx(expected)


# ------------------------------------------------------------------ syntax


def test_in_a_decoder_the_later_end_of_an_arc_asks() -> None:
    """big dogs bark, dogs in two pieces, behind the start token."""
    batch = collate([([EOS], [3, 4, 5, 6, EOS])], [0])
    tree = AlignedTree(torch.tensor([-1, 0, 1, 1, 2]), torch.tensor([[2, 0, 1], [0, 1, 2]]))
    weights = torch.eye(5)
    weights[2] = torch.tensor([0.4, 0.2, 0.4, 0, 0])
    weights[3] = torch.tensor([0, 0.8, 0.1, 0.1, 0])
    weights[4] = torch.tensor([0, 0.3, 0.2, 0.2, 0.3])
    tape = {(Kind.DECODER, Point.WEIGHTS): [torch.stack([weights, torch.eye(5)])[None]]}
    right, asked = syntactic(tape, batch, [tree], Kind.DECODER)
    expected = torch.zeros(8)
    for name in ("amod", "nsubj"):
        expected[RELATION_DIRECTIONS.index((name, Direction.HEAD_TO_DEPENDENT))] = 1
    assert torch.equal(asked[0, 0, 0].float(), expected)
    assert torch.equal(right[0, 0].float(), torch.stack([expected, torch.zeros(8)]))


# ------------------------------------------------------------------ what every measure owes

EVERY = {
    "confidence": (Kind.ENCODER, lambda *_: confidence),
    "special": (Kind.ENCODER, lambda *_: special),
    "positional": (Kind.ENCODER, lambda *_: positional),
    "decoder": (Kind.DECODER, lambda *_: partial(positional, kind=Kind.DECODER)),
    "cross": (Kind.CROSS, lambda *_: partial(confidence, kind=Kind.CROSS)),
    "rare": (Kind.ENCODER, lambda _, ranks: partial(rare, ranks=ranks)),
    "syntactic": (Kind.ENCODER, lambda trees, _: partial(syntactic, trees=trees)),
}


@pytest.fixture(params=EVERY)
def measure(request, corpus, ranks) -> tuple[Kind, Measure]:
    kind, make = EVERY[request.param]
    return kind, make(corpus.trees, ranks)


def same(one: dict, other: dict) -> None:
    for mine, theirs in zip(vars(one[""]).values(), vars(other[""]).values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def test_splitting_permuting_padding_and_what_stands_there_change_nothing(
    measure, corpus, attention
) -> None:
    kind, measure = measure

    def found(*groups: list[int], extra: int = 0, change: Callable = lambda tape, _: tape) -> dict:
        batches = [corpus.batch(group, extra) for group in groups]
        return sums({"": measure}, ((change(attention(b, kind), b), b) for b in batches), 5)

    def garbled(tape: dict, batch: Batch) -> dict:
        queries = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
        layers = tape[kind, Point.WEIGHTS]
        changed = [torch.where(queries[:, None, :, None], layer, 1.0) for layer in layers]
        return {(kind, Point.WEIGHTS): changed}

    whole = found(list(range(24)))
    shuffled = torch.randperm(24, generator=torch.Generator().manual_seed(0)).tolist()
    same(whole, found(shuffled[:1], shuffled[1:8], shuffled[8:]))
    same(whole, found(list(range(24)), extra=5, change=garbled))
