"""Orders and masks, against what can be counted by hand."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headbook.pruning.ranking import (
    ascending,
    counts,
    first_of,
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


def test_blocks_may_have_different_kinds_of_shape_and_negative_scores() -> None:
    scores = {ENCODER: torch.tensor([[0.0, -2.0, 1.0]]), CROSS: torch.tensor([[-1.0]])}
    order = [(head.kind, head.head) for head in ascending(scores)]
    assert order == [(ENCODER, 1), (CROSS, 0), (ENCODER, 0), (ENCODER, 2)]


def test_ties_are_broken_by_the_head_whatever_the_order_of_the_kinds() -> None:
    zeros = {kind: torch.zeros(3, 4) for kind in Kind}
    turned = {kind: torch.zeros(3, 4) for kind in reversed(Kind)}
    assert ascending(zeros) == ascending(turned) == tuple(BY_NAME)


def test_a_head_without_a_score_is_refused_by_name() -> None:
    scores = {ENCODER: torch.tensor([[0.1, 0.2], [float("nan"), float("nan")]])}
    with pytest.raises(UserError, match=r"L2H1 is NaN, and of 1 more"):
        ascending(scores)


def test_infinite_scores_have_their_place() -> None:
    scores = {ENCODER: torch.tensor([[float("inf"), 0.0, -float("inf")]])}
    assert [head.head for head in ascending(scores)] == [2, 1, 0]


def test_a_random_order_depends_on_its_seed_alone() -> None:
    order = random_order(HEADS, 3)
    assert sorted(order) == sorted(HEADS)
    assert order == random_order(reversed(HEADS), 3)
    assert order != random_order(HEADS, 4)
    assert order != tuple(sorted(HEADS))


def test_every_head_may_come_first_in_a_random_order() -> None:
    first = {random_order(HEADS[:4], seed)[0] for seed in range(60)}
    assert first == set(HEADS[:4])


@given(st.lists(st.floats(0, 1), max_size=6), st.integers(0, 1000))
def test_masks_are_nested_and_of_the_asked_size(levels: list[float], seed: int) -> None:
    order = random_order(HEADS, seed)
    masks = [first_of(order, count) for count in counts(len(order), sorted(levels))]
    assert [len(mask) for mask in masks] == [round(len(order) * level) for level in sorted(levels)]
    for smaller, larger in pairwise(masks):
        assert larger[: len(smaller)] == smaller


def test_no_share_closes_nothing_and_the_whole_share_everything() -> None:
    assert counts(len(HEADS), [0.0, 1.0]) == (0, len(HEADS))
    assert counts(0, [0.0, 0.5]) == (0, 0)


@pytest.mark.parametrize("level", [-0.1, 1.01, float("nan")])
def test_a_level_outside_nought_to_one_is_refused(level: float) -> None:
    with pytest.raises(UserError, match="share of"):
        counts(12, [0.5, level])


@pytest.mark.parametrize("count", [-1, 13])
def test_pruning_more_heads_than_there_are_is_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"{count} heads cannot be pruned of 12"):
        first_of(HEADS[:12], count)


def test_keeping_one_head_closes_the_others_of_its_block_alone() -> None:
    kept = HeadId(CROSS, 1, 2)
    assert keep_one(HEADS, kept) == tuple(HeadId(CROSS, 1, head) for head in (0, 1, 3))


def test_keeping_a_head_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="cross L9H1"):
        keep_one(HEADS, HeadId(CROSS, 8, 0))
