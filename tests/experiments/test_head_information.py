"""Page 25's mutual information: heads whose outputs are known."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from small import untrained_model

from headbook.experiments.head_information import information, reading
from headbook.heads.collect import recordings
from headbook.heads.measure import sums
from headbook.heads.scores import confidence
from headbook.types import Kind

TOKENS, KINDS = 600, 4
SENTENCES = [f"the {who} sees a red ball often" for who in ("dog", "cat", "sister")] * 4


READ = torch.randint(KINDS, (TOKENS,), generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_passes_on_what_it_reads_has_all_of_the_entropy() -> None:
    told, shuffled, entropy = information(torch.eye(KINDS)[READ], READ, torch.arange(KINDS))
    assert entropy == pytest.approx(math.log(KINDS), abs=0.02)
    assert told + shuffled == pytest.approx(entropy)


@pytest.mark.parametrize("outputs", ["the token before", "noise"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_passes_on_something_else_has_none(outputs: str) -> None:
    noise = torch.randn(TOKENS, 8, generator=torch.Generator().manual_seed(1))
    given = noise if outputs == "noise" else torch.eye(KINDS)[READ.roll(1)]
    told, shuffled, _ = information(given, READ, torch.arange(KINDS))
    assert abs(told) < 0.05 and shuffled > 0  # the bias, which is taken off


def test_heads_are_read_as_the_measures_read_them(tmp_path: Path) -> None:
    model = untrained_model(tmp_path / "model")
    batches = model.batches(SENTENCES, SENTENCES, 40)
    for kind in (Kind.ENCODER, Kind.CROSS):
        _, _, tops = reading(model, kind, batches)
        measure = {"": partial(confidence, kind=kind)}
        own = sums(measure, recordings(model.network, batches))[""].ratio()
        assert torch.allclose(tops.double().mean(0), own, atol=1e-5)
