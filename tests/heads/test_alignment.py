"""Alignment read off attention: links by hand, the error rate against sets of links, controls."""

import pytest
import torch

from headbook.corpora.batches import collate
from headbook.heads.alignment import (
    AlignmentAgreement,
    LinkPrecision,
    Step,
    WordPair,
    diagonal,
    links,
)
from headbook.heads.random_head import random_heads
from headbook.models.capture import Point
from headbook.types import Kind, UserError


def pair() -> WordPair:
    """Two source words of one and two pieces, three target words of two, one and one; EOS behind.

    Target words 0 and 1 are surely source words 0 and 1; 2 may be 1; group 0 asks for word 1.
    """
    sure = torch.tensor([[True, False], [False, True], [False, False]])
    possible = sure | torch.tensor([[False, False], [False, False], [False, True]])
    group = torch.tensor([[[False, False], [False, True], [False, False]]])
    return WordPair(torch.tensor([0, 1, 1, -1]), torch.tensor([0, 0, 1, 2, -1]), sure, possible,
                    group)  # fmt: skip


def batch():
    return collate([([5, 6, 7, 1], [8, 9, 10, 11, 1])], [0])


def weights(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows)[None, None]


ROWS = [
    [0.5, 0.1, 0.1, 0.3],  # the first word looks at word 0,
    [0.4, 0.3, 0.2, 0.1],  # its second piece a little more at 1: together at 0
    [0.4, 0.3, 0.3, 0.0],  # word 1 by the sum over pieces
    [0.1, 0.0, 0.2, 0.7],  # EOS is no word: word 1
    [0.9, 0.1, 0.0, 0.0],
]


def test_links_by_hand() -> None:
    assert links(weights(ROWS), pair()).tolist() == [[[0, 1, 1]]]
    # read one step later: the first word by rows 1 and 2, the second by row 3, the third by row 4
    assert links(weights(ROWS), pair(), Step.INPUT).tolist() == [[[1, 1, 0]]]


def test_the_error_rate_is_that_of_sets_of_links() -> None:
    tape = {(Kind.CROSS, Point.WEIGHTS): [weights(ROWS)[:, 0][:, None]]}
    for step in Step:
        found = links(weights(ROWS), pair(), step)[0, 0].tolist()
        measure = AlignmentAgreement([pair()], step)
        measure.update(tape, batch())
        a = {(t, s) for t, s in enumerate(found)}
        sure = {tuple(each) for each in pair().sure.nonzero().tolist()}
        possible = {tuple(each) for each in pair().possible.nonzero().tolist()}
        error = 1 - (len(a & sure) + len(a & possible)) / (len(a) + len(sure))
        assert float(measure.compute()) == pytest.approx(1 - error)


def test_a_group_asks_its_own_words_only() -> None:
    measure = LinkPrecision([pair()])
    measure.update({(Kind.CROSS, Point.WEIGHTS): [weights(ROWS)[:, 0][:, None]]}, batch())
    assert float(measure.compute()) == 1  # of the two of three words that are right, one is asked


def test_a_head_that_cannot_choose_points_nowhere() -> None:
    even = torch.zeros(1, 1, 5, 4)
    assert links(even, pair()).tolist() == [[[-1, -1, -1]]]


def test_random_heads_are_right_by_chance() -> None:
    pairs = [pair()] * 300
    many = collate([([5, 6, 7, 1], [8, 9, 10, 11, 1])] * 300, list(range(300)))
    measure = LinkPrecision(pairs, replicates=0)
    measure.update(random_heads(many, Kind.CROSS, heads=4), many)
    assert 0.6 < float(measure.compute().mean()) < 0.9  # word 1 has two of three pieces


def test_tokens_of_another_model_are_refused() -> None:
    measure = AlignmentAgreement([pair()])
    other = collate([([5, 6, 1], [8, 1])], [0])
    with pytest.raises(UserError, match="tokens where the model has"):
        measure.update(random_heads(other, Kind.CROSS), other)


def test_the_diagonal_runs_from_corner_to_corner() -> None:
    many = collate([([5, 6, 7, 1], [8, 9, 10, 11, 12, 1]), ([5, 1], [8, 1])], [0, 1])
    (weights,) = diagonal(many)[Kind.CROSS, Point.WEIGHTS]
    assert weights[0, 0, :5].argmax(-1).tolist() == [0, 0, 1, 2, 2]
    assert weights[1, 0, 0].argmax() == 0 and weights[1].sum() == 1
