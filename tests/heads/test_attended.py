"""Weights on kinds of key, of heads whose weights are known."""

import pytest
import torch
from known_heads import at_eos, at_first, at_offset, recording, uniform

from headbook.corpora.batches import Batch, collate
from headbook.heads.attended import Attended, AttendedWeight
from headbook.models.capture import Point
from headbook.types import Kind, UserError

SIGNS = [torch.tensor([False, True, False, False]), torch.tensor([False, False])]


@pytest.fixture
def batch() -> Batch:
    """Three tokens, of which the second is a comma, and one token; EOS behind both."""
    return collate([([5, 6, 7, 1], [1]), ([5, 1], [1])], [0, 1])


def measured(weights: list, batch: Batch) -> dict[Attended, list[float]]:
    measure = AttendedWeight(SIGNS)
    measure.update(recording(weights), batch)
    return {kind: measure.compute()[0, :, at].tolist() for at, kind in enumerate(Attended)}


def test_known_heads(batch: Batch) -> None:
    heads = [at_eos(batch), at_first(batch), uniform(batch), at_offset(batch, 1)]
    found = measured(heads, batch)
    assert found[Attended.LAST_SPECIAL] == pytest.approx([1, 0, (3 / 4 + 1 / 2) / 4, 0.5])
    assert found[Attended.FIRST_SPECIAL] == [0, 0, 0, 0]
    assert found[Attended.OWN] == pytest.approx([0, 0.5, (3 / 4 + 1 / 2) / 4, 0])
    assert found[Attended.PREVIOUS] == pytest.approx([0, 1 / 4, 2 / 4 / 4, 0])
    assert found[Attended.NEXT][3] == 1
    assert found[Attended.PUNCTUATION] == pytest.approx([0, 0, 3 / 4 / 4, 1 / 4])


def test_the_first_of_two_special_tokens_is_a_kind_of_its_own(batch: Batch) -> None:
    special = torch.tensor([[True, False, False, True], [True, True, False, False]])
    marked = Batch(batch.source, batch.target_in, batch.target_out, batch.sentences,
                   batch.source != 0, special)  # fmt: skip
    weights = torch.zeros(2, 1, 4, 4)
    weights[0, 0, :] = torch.tensor([0.5, 0.1, 0.1, 0.3])
    measure = AttendedWeight(SIGNS)
    measure.update({(Kind.ENCODER, Point.WEIGHTS): [weights]}, marked)
    found = dict(zip(Attended, measure.compute()[0, 0].tolist(), strict=True))
    assert found[Attended.FIRST_SPECIAL] == pytest.approx(0.5)
    assert found[Attended.LAST_SPECIAL] == pytest.approx(0.3)


def test_other_kinds_of_attention_are_refused() -> None:
    with pytest.raises(UserError, match="not for cross"):
        AttendedWeight(SIGNS, Kind.CROSS)
