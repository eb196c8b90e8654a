"""Right answers per sentence: counted by hand on three trees, and by loops over `hb.attention`."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from small import cut_out

import headbook as hb
from headbook.heads.baselines import RULES, Side
from headbook.looking.answers import QUESTIONS, Answers
from headbook.looking.naming import named
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.models.gates import closed
from headbook.text.trees import ROOT, Tree
from headbook.types import UserError

TREES = (
    Tree("dogs chase small cats", ((0, 4), (5, 10), (11, 16), (17, 21)), (1, ROOT, 3, 1),
         ("nsubj", "root", "amod", "dobj"), ("NOUN", "VERB", "ADJ", "NOUN")),
    Tree("she often sings", ((0, 3), (4, 9), (10, 15)), (2, 2, ROOT),
         ("nsubj", "advmod", "root"), ("PRON", "ADV", "VERB")),
    Tree("birds eat", ((0, 5), (6, 9)), (1, ROOT), ("nsubj", "root"), ("NOUN", "VERB")),
)  # fmt: skip
POINTS = ((1, 3, 3, 1), (2, 0, 1), (0, 0))
"""The word that the first head looks at, for every word of the three sentences."""
ASKED = [[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 0, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0, 0]]
RIGHT = [[0, 1, 1, 1, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0, 0, 0]]
PAIRS = {"nsubj": ("verb", "subject"), "dobj": ("verb", "object"), "amod": ("noun", "adjective"),
         "advmod": ("verb", "adverb")}  # fmt: skip


def pointing(points: tuple[int, ...], at_end: float = 0.0) -> torch.Tensor:
    """[token, token] with EOS at the end, which takes the share `at_end` of every row."""
    found = torch.zeros(len(points) + 1, len(points) + 1)
    found[range(len(points)), list(points)] = 1 - at_end
    found[:, -1] += at_end
    found[-1] = torch.eye(len(points) + 1)[-1]
    return found


@pytest.fixture
def by_hand(with_weights: Callable) -> Answers:
    """Heads: as POINTS says; the same with most weight at EOS; uniform; to the next word."""
    given = {}
    for tree, points in zip(TREES, POINTS, strict=True):
        following = tuple(min(at + 1, len(tree) - 1) for at in range(len(tree)))
        uniform = torch.full((len(tree) + 1, len(tree) + 1), 1 / (len(tree) + 1))
        heads = [pointing(points), pointing(points, 0.7), uniform, pointing(following)]
        given[tree.text] = torch.stack(heads).unflatten(0, (2, 2))
    return hb.answers(with_weights(given), TREES)


def test_three_sentences_by_hand(by_hand: Answers):
    assert by_hand.asked.tolist() == ASKED
    assert by_hand.heads.tolist() == ["L1H1", "L1H2", "L2H1", "L2H2"]
    assert by_hand.right[:, 0].tolist() == by_hand.right[:, 1].tolist() == RIGHT
    assert not by_hand.right[:, 2].any()  # a tie is no answer
    following = [[0, 1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 0]]
    assert by_hand.right[:, 3].tolist() == following


def test_the_next_word_and_a_rule_of_the_three_sentences_by_hand(by_hand: Answers):
    assert by_hand.offsets[:, by_hand.reach + 1].tolist() == by_hand.right[:, 3].tolist()
    assert not by_hand.offsets[:, by_hand.reach].any()
    assert by_hand.offsets[:, by_hand.reach + 2, 2].tolist() == [1, 0, 0]  # chase → cats
    rule = by_hand.rule_names.tolist().index("next NOUN")
    assert by_hand.rules[:, rule].tolist() == [[0, 0, 1, 0, 0, 1, 0, 0], [0] * 8, [0] * 8]


def asked_in(tree: Tree, pieces: np.ndarray) -> list[tuple[int, int, int]]:
    """(question, asking word, right word) of every arc whose words both have a token."""
    found = []
    for dependent, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True)):
        if relation in PAIRS and head != ROOT and pieces[head] and pieces[dependent]:
            names = PAIRS[relation]
            found.append((QUESTIONS.index(" → ".join(names)), head, dependent))
            found.append((QUESTIONS.index(" → ".join(names[::-1])), dependent, head))
    return found


def looked_at(row: np.ndarray) -> int | None:
    """The word of the largest weight, if there is one."""
    most = np.flatnonzero(row >= row.max() * (1 - 1e-6))
    return int(most[0]) if len(most) == 1 and row.max() > 0 else None


def pointed_by(tag_rule, tags: tuple[str, ...], word: int) -> int | None:
    before = [at for at in range(word - 1, -1, -1) if tags[at] in tag_rule.tags]
    after = [at for at in range(word + 1, len(tags)) if tags[at] in tag_rule.tags]
    near = {Side.BEFORE: before[:1], Side.AFTER: after[:1], Side.EITHER: before[:1] + after[:1]}
    return min(near[tag_rule.side], key=lambda at: abs(at - word), default=None)


@pytest.fixture(scope="module")
def few(sample: Text) -> Text:
    return replace(sample, sentences=sample.sentences[:60], trees=sample.trees[:60])


@pytest.fixture(scope="module")
def found(ours: OurModel, few: Text) -> Answers:
    return hb.answers(ours, few)


def test_answers_are_what_a_loop_over_attention_counts(ours: OurModel, few: Text, found: Answers):
    asked, right = np.zeros((60, 8)), np.zeros((60, 4, 8))
    offsets, rules = np.zeros_like(found.offsets), np.zeros((60, len(RULES), 8))
    for number, (tree, seen) in enumerate(zip(few.trees, hb.attention(ours, few), strict=True)):
        for question, word, answer in asked_in(tree, seen.pieces):
            asked[number, question] += 1
            for at, weights in enumerate(seen.weights.reshape(4, len(tree), len(tree))):
                right[number, at, question] += looked_at(weights[word]) == answer
            if abs(answer - word) <= found.reach:
                offsets[number, answer - word + found.reach, question] += 1
            for at, rule in enumerate(RULES):
                rules[number, at, question] += pointed_by(rule, tree.tags, word) == answer
    assert asked.sum(0).all() and right.any((0, 2)).all()
    np.testing.assert_array_equal(found.asked, asked)
    np.testing.assert_array_equal(found.right, right)
    np.testing.assert_array_equal(found.offsets, offsets)
    np.testing.assert_array_equal(found.rules, rules)
    assert found.rule_names.tolist() == [str(rule) for rule in RULES]


def test_an_arc_of_a_word_without_a_token_is_not_asked(with_weights: Callable):
    text = "dogs can't"
    weights = torch.stack([pointing((1, 0))])[None]
    tree = Tree(text, ((0, 4), (5, 7), (7, 10)), (1, ROOT, 1), ("nsubj", "root", "advmod"))
    found = hb.answers(with_weights({text: weights}), [tree])
    assert found.asked[0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0] == found.right[0, 0].tolist()
    assert found.rules.shape == (1, 0, 8) and len(found.rule_names) == 0


def test_order_and_company_of_sentences_change_nothing(ours: OurModel, few: Text, found: Answers):
    turned = hb.answers(ours, few.trees[7:30][::-1])
    np.testing.assert_array_equal(turned.right, found.right[7:30][::-1])
    np.testing.assert_array_equal(turned.asked, found.asked[7:30][::-1])


def test_models_and_texts_that_cannot_answer_are_refused(ours: OurModel, few: Text):
    with closed(ours.network, named(ours.network, "L2H1")):
        pruned = replace(ours, network=cut_out(ours.network))
    for model, given in ((pruned, few), (ours, replace(few, trees=())), (ours, [])):
        with pytest.raises(UserError) as caught:
            hb.answers(model, given)
        assert "\n" not in str(caught.value)
