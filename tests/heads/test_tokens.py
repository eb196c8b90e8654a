"""Which tokens count, and where a query points."""

import torch

from headbook.heads.tokens import (
    NOWHERE,
    counted_keys,
    counted_pairs,
    counted_queries,
    marks_beside,
    pointed,
    visible,
)
from headbook.text.batches import EOS, Batch, collate
from headbook.types import Kind

BATCH = collate([([5, 6, EOS], [7, EOS]), ([5, EOS], [7, 8, 9, EOS])], [0, 1])


def rows(mask: torch.Tensor) -> list[list[int]]:
    return mask.long().tolist()


def test_encoder_leaves_out_eos_and_padding() -> None:
    for counted in (counted_keys, counted_queries):
        assert rows(counted(BATCH, Kind.ENCODER)) == [[1, 1, 0], [1, 0, 0]]
        assert rows(counted(BATCH, Kind.ENCODER, boundary=True)) == [[1, 1, 1], [1, 1, 0]]


def test_decoder_leaves_out_the_start_token() -> None:
    for counted in (counted_keys, counted_queries):
        assert rows(counted(BATCH, Kind.DECODER)) == [[0, 1, 0, 0], [0, 1, 1, 1]]
        assert rows(counted(BATCH, Kind.DECODER, boundary=True)) == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_cross_leaves_out_source_eos_and_the_query_that_predicts_eos() -> None:
    assert rows(counted_keys(BATCH, Kind.CROSS)) == [[1, 1, 0], [1, 0, 0]]
    assert rows(counted_queries(BATCH, Kind.CROSS)) == [[1, 0, 0, 0], [1, 1, 1, 0]]
    assert rows(counted_queries(BATCH, Kind.CROSS, boundary=True)) == [[1, 1, 0, 0], [1, 1, 1, 1]]


def test_decoder_queries_see_no_later_key() -> None:
    pairs = counted_pairs(BATCH, Kind.DECODER)[1]
    assert rows(pairs) == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    assert counted_pairs(BATCH, Kind.CROSS).shape == (2, 4, 3)


def as_heads(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows)[None, None, None]


def test_a_tied_query_points_nowhere() -> None:
    key = pointed(as_heads([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]]))
    assert key.flatten().tolist() == [1, NOWHERE, NOWHERE, 2]


def test_the_only_key_is_not_pointed_at_without_weight() -> None:
    assert pointed(as_heads([[0.0], [1e-9]])).flatten().tolist() == [NOWHERE, 0]


def test_rounding_does_not_break_a_tie() -> None:
    third = 1 / 3
    assert pointed(as_heads([[third, third * (1 + 1e-7), third]])).item() == NOWHERE
    assert pointed(as_heads([[third, third * (1 + 1e-5), third]])).item() == 1


def test_visible_masks_a_copy_and_does_not_rescale() -> None:
    weights = as_heads([[0.25, 0.25, 0.5]] * 3)
    before = weights.clone()
    pairs = torch.tensor([True, True, False]).expand(1, 3, 3)
    assert visible(weights, pairs).flatten().tolist() == [0.25, 0.25, 0.0] * 3
    assert torch.equal(weights, before)


def test_visible_survives_what_padding_may_hold() -> None:
    weights = as_heads([[0.5, float("nan")], [0.5, float("-inf")]])
    pairs = torch.tensor([True, False]).expand(1, 2, 2)
    assert visible(weights, pairs).flatten().tolist() == [0.5, 0.0, 0.5, 0.0]


def test_special_tokens_of_other_models_count_neither_as_key_nor_as_query() -> None:
    """[CLS] in front, [SEP] behind, padding whose id is no PAD of ours."""
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    special = torch.tensor([[True, False, False, False, True], [True, False, True, False, False]])
    batch = Batch(
        source=torch.full((2, 5), 7),
        target_in=torch.full((2, 1), 7),
        target_out=torch.full((2, 1), 7),
        sentences=torch.arange(2),
        source_real=real,
        source_special=special,
    )
    for counted in (counted_keys, counted_queries):
        assert torch.equal(counted(batch, Kind.ENCODER), real & ~special)
    assert torch.equal(counted_keys(batch, Kind.ENCODER, boundary=True), real)
    moved = batch.to("cpu")
    assert torch.equal(moved.source_mask, real) and moved.target_real is None


def test_marks_stand_beside_the_tokens_of_their_own_sentence() -> None:
    """The batch holds the corpus's third sentence above its first, which is padded."""
    marks = [torch.tensor([True, False]), torch.tensor([True]), torch.tensor([False, True, True])]
    batch = collate([([5, 6, EOS], [EOS]), ([7, EOS], [EOS])], [2, 0])
    found = marks_beside(batch, Kind.ENCODER, marks)
    assert found.tolist() == [[False, True, True], [True, False, False]]
