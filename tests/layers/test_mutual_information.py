"""Mutual information: known answers, its bias as the null shows it, and what is refused."""

import math

import pytest
import torch
from blocks import drawn

from headbook.layers.mutual_information import clusters, information

KINDS, EACH = 8, 60
TOKENS = torch.arange(KINDS).repeat_interleave(EACH) + 3


def test_known_clusters_tell_known_amounts() -> None:
    """Those that are the tokens all of the entropy; two of four tokens each ln 2."""
    found = information((TOKENS + 5).numpy(), TOKENS, seed=0)
    assert found.nats == pytest.approx(math.log(KINDS)) == found.entropy
    assert found.null < 0.15
    halves = information(((TOKENS - 3) // 4).numpy(), TOKENS, seed=0)
    assert halves.nats == pytest.approx(math.log(2))


def test_unrelated_states_tell_what_the_null_tells() -> None:
    """And that is the bias: (clusters - 1)(tokens - 1) / (2 · occurrences)."""
    found = information(clusters(drawn(KINDS * EACH, KINDS, seed=1), 12, seed=0), TOKENS, seed=0)
    bias = 11 * (KINDS - 1) / (2 * KINDS * EACH)
    assert found.null == pytest.approx(bias, rel=0.25)
    assert found.nats == pytest.approx(found.null, abs=4 * math.sqrt(11 * 7 / 2) / (KINDS * EACH))
