"""The weight on special tokens of heads whose weights are known."""

import pytest
from known_heads import at_eos, at_first, recording, uniform

from headbook.heads.special import SpecialWeight
from headbook.text.batches import collate
from headbook.types import Kind


def test_known_heads():
    batch = collate([([5, 6, 7, 1], [1]), ([5, 1], [1])], [0, 1])
    heads = [at_eos(batch), at_first(batch), uniform(batch), 0.5 * at_first(batch)]
    measure = SpecialWeight(Kind.ENCODER)
    measure.update(recording(heads), batch)
    # of three and one real queries; half of the last head's weight is on no key at all
    assert measure.compute()[0].tolist() == pytest.approx([1, 0, (3 / 4 + 1 / 2) / 4, 0.5])
