"""Orders and masks, against what can be counted by hand."""

import pytest
import torch

from headbook.pruning.ranking import (
    ascending,
    keep_one,
    random_order,
)
from headbook.types import HeadId, Kind, UserError

ENCODER, CROSS = Kind.ENCODER, Kind.CROSS
HEADS = [HeadId(kind, layer, head) for kind in Kind for layer in range(3) for head in range(4)]
BY_NAME = [HeadId(kind, layer, head) for kind in sorted(Kind) for layer in range(3)
           for head in range(4)]  # fmt: skip


def test_heads_of_all_kinds_are_put_in_one_order_lowest_first() -> None:
    scores = {
        ENCODER: torch.tensor([[0.3, 0.1], [0.9, 0.0]]),
        CROSS: torch.tensor([[0.2, 0.8]]),
    }
    expected = [(ENCODER, 1, 1), (ENCODER, 0, 1), (CROSS, 0, 0), (ENCODER, 0, 0), (CROSS, 0, 1),
                (ENCODER, 1, 0)]  # fmt: skip
    assert ascending(scores) == tuple(HeadId(*each) for each in expected)


def test_ties_are_broken_by_the_head_whatever_the_order_of_the_kinds() -> None:
    zeros = {kind: torch.zeros(3, 4) for kind in Kind}
    turned = {kind: torch.zeros(3, 4) for kind in reversed(Kind)}
    assert ascending(zeros) == ascending(turned) == tuple(BY_NAME)


def test_a_head_without_a_score_is_refused_by_name() -> None:
    scores = {ENCODER: torch.tensor([[0.1, 0.2], [float("nan"), float("nan")]])}
    with pytest.raises(UserError, match=r"L2H1 is NaN, and of 1 more"):
        ascending(scores)


def test_a_random_order_depends_on_its_seed_alone() -> None:
    order = random_order(HEADS, 3)
    assert sorted(order) == sorted(HEADS)
    assert order == random_order(reversed(HEADS), 3)
    assert order != random_order(HEADS, 4)
    assert order != tuple(sorted(HEADS))


def test_keeping_one_head_closes_the_others_of_its_block_alone() -> None:
    kept = HeadId(CROSS, 1, 2)
    assert keep_one(HEADS, kept) == tuple(HeadId(CROSS, 1, head) for head in (0, 1, 3))


def test_keeping_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="cross L9H1"):
        keep_one(HEADS, HeadId(CROSS, 8, 0))
