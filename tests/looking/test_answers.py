"""Right answers per sentence, counted by hand on three trees."""

from collections.abc import Callable

import pytest
import torch
from refusing import refused

import headbook as hb
from headbook.looking.answers import Answers
from headbook.looking.ours import OurModel
from headbook.looking.text import Text
from headbook.text.trees import ROOT, Tree

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
    given = []
    for tree, points in zip(TREES, POINTS, strict=True):
        following = tuple(min(at + 1, len(tree) - 1) for at in range(len(tree)))
        uniform = torch.full((len(tree) + 1, len(tree) + 1), 1 / (len(tree) + 1))
        heads = [pointing(points), pointing(points, 0.7), uniform, pointing(following)]
        given.append(torch.stack(heads).unflatten(0, (2, 2)))
    return hb.answers(with_weights(*given), TREES)


def test_three_sentences_by_hand(by_hand: Answers):
    assert by_hand.asked.tolist() == ASKED
    assert by_hand.heads.tolist() == ["L1H1", "L1H2", "L2H1", "L2H2"]
    assert by_hand.right[:, 0].tolist() == by_hand.right[:, 1].tolist() == RIGHT
    assert not by_hand.right[:, 2].any()  # a tie is no answer
    following = [[0, 1, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0, 0]]
    assert by_hand.right[:, 3].tolist() == following
    assert by_hand.offsets[:, by_hand.reach + 1].tolist() == by_hand.right[:, 3].tolist()
    assert not by_hand.offsets[:, by_hand.reach].any()
    assert by_hand.offsets[:, by_hand.reach + 2, 2].tolist() == [1, 0, 0]  # chase → cats
    rule = by_hand.rule_names.tolist().index("next NOUN")
    assert by_hand.rules[:, rule].tolist() == [[0, 0, 1, 0, 0, 1, 0, 0], [0] * 8, [0] * 8]


def test_an_arc_of_a_word_without_a_token_is_not_asked(with_weights: Callable):
    text = "dogs can't"
    weights = torch.stack([pointing((1, 0))])[None]
    tree = Tree(text, ((0, 4), (5, 7), (7, 10)), (1, ROOT, 1), ("nsubj", "root", "advmod"))
    found = hb.answers(with_weights(weights), [tree])
    assert found.asked[0].tolist() == [1, 1, 0, 0, 0, 0, 0, 0] == found.right[0, 0].tolist()


def test_models_and_texts_that_cannot_answer_are_refused(ours: OurModel):
    pruned = hb.prune(ours, "L2H1")
    for model, given in ((pruned, TREES), (ours, Text("bare", ("a",), (), "none")), (ours, [])):
        with refused():
            hb.answers(model, given)
