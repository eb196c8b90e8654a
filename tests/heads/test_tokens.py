"""Which tokens count, and where a query points."""

import torch

from headbook.heads.tokens import NOWHERE, counted_keys, counted_queries, pointed
from headbook.text.batches import Batch
from headbook.types import Kind


def as_heads(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows)[None, None, None]


def test_a_tied_query_points_nowhere() -> None:
    top, key = pointed(
        as_heads([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.0, 0.0, 0.0], [0.3, 0.3, 0.4]])
    )
    assert key.flatten().tolist() == [1, NOWHERE, NOWHERE, 2]
    torch.testing.assert_close(top.flatten(), torch.tensor([0.5, 0.4, 0.0, 0.4]))
    third = 1 / 3  # rounding does not break a tie, and the only key needs some weight
    for row, expected in (
        ([third, third * (1 + 1e-7), third], NOWHERE),
        ([third, third * (1 + 1e-5), third], 1),
        ([0.0], NOWHERE),
        ([1e-9], 0),
    ):
        assert pointed(as_heads([row]))[1].item() == expected


def test_special_tokens_of_other_models_count_neither_as_key_nor_as_query() -> None:
    """[CLS] in front, [SEP] behind, padding whose id is no PAD of ours."""
    real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    special = torch.tensor([[True, False, False, False, True], [True, False, True, False, False]])
    ids = torch.full((2, 5), 7)
    batch = Batch(ids, ids[:, :1], ids[:, :1], torch.arange(2), real, source_special=special)
    for counted in (counted_keys, counted_queries):
        assert torch.equal(counted(batch, Kind.ENCODER), real & ~special)
    assert torch.equal(counted_keys(batch, Kind.ENCODER, boundary=True), real)
