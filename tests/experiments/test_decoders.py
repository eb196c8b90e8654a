"""Decoders watched as they learn: what each setting can see, and numbers that can be told."""

from dataclasses import replace

import numpy as np
import pytest

from headbook.experiments.decoders import DESCRIBED, Setting
from headbook.experiments.watched import first_batches, watched


@pytest.fixture
def setting(corpus: str) -> Setting:
    return Setting(text=corpus, updates=4, tokens=32, heads=4, vocabulary=60, context=8)


def test_as_described_it_sees_what_came_before(setting: Setting) -> None:
    found = watched(replace(setting, setting=DESCRIBED, scale=0.1))
    for version in ("untrained", "trained"):
        assert found[f"{version}_before"].max() == 0 < found[f"{version}_at"].min()


def test_the_first_batches_are_those_of_the_training(setting: Setting) -> None:
    """As published the same numbers by another path, and padding; as described there is none."""
    known, found = watched(setting), first_batches(setting, updates=4)
    assert known["untrained_before"].min() > 0.01  # as published it sees what it is to predict
    assert np.allclose(found["loss"], known["loss_nats"])
    assert np.allclose(found["mean"], known["output dissimilarity, raw"])
    assert np.allclose(found["variance"], known["output dissimilarity, raw, variance"])
    assert found["padding"].max() > 0
    described = first_batches(replace(setting, setting=DESCRIBED, scale=5.0), updates=8)
    assert (described["padding"] == 0).all()
    assert described["loss"].iloc[-1] < described["loss"].iloc[0]
