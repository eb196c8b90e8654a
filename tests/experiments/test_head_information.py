"""Page 25's mutual information: heads whose outputs are known, and when its gate closes."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from small import untrained_model

from headbook import tables
from headbook.experiments import head_information
from headbook.experiments.head_information import information, published, reading, told
from headbook.heads.collect import recordings
from headbook.heads.measure import sums
from headbook.heads.scores import confidence
from headbook.looking.ours import OurModel
from headbook.types import Kind

TOKENS, KINDS = 600, 4
SENTENCES = [f"the {who} sees a red ball often" for who in ("dog", "cat", "sister")] * 4


@pytest.fixture(scope="module")
def read() -> torch.Tensor:
    """Four kinds of token in random order."""
    return torch.randint(KINDS, (TOKENS,), generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_passes_on_what_it_reads_has_all_of_the_entropy(read: torch.Tensor) -> None:
    told, shuffled, entropy = information(torch.eye(KINDS)[read], read, torch.arange(KINDS))
    assert entropy == pytest.approx(math.log(KINDS), abs=0.02)
    assert told + shuffled == pytest.approx(entropy)


@pytest.mark.parametrize("outputs", ["the token before", "noise"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_passes_on_something_else_has_none(read: torch.Tensor, outputs: str) -> None:
    noise = torch.randn(TOKENS, 8, generator=torch.Generator().manual_seed(1))
    given = noise if outputs == "noise" else torch.eye(KINDS)[read.roll(1)]
    told, shuffled, _ = information(given, read, torch.arange(KINDS))
    assert abs(told) < 0.05 and shuffled > 0  # the bias, which is taken off


@pytest.fixture
def model(tmp_path: Path) -> OurModel:
    return untrained_model(tmp_path / "model")


def test_heads_are_read_as_the_measures_read_them(model: OurModel) -> None:
    batches = model.batches(SENTENCES, SENTENCES, 40)
    for kind in (Kind.ENCODER, Kind.CROSS):
        outputs, read, tops = reading(model, kind, batches)
        measure = {"": partial(confidence, kind=kind)}
        own = sums(measure, recordings(model.network, batches))[""].ratio()
        assert torch.allclose(tops.double().mean(0), own, atol=1e-5)
        assert outputs.shape[:3] == read.shape
        assert set(read.flatten().tolist()) <= {
            i for b in batches for i in b.source.unique().tolist()
        }
    rows = told(model, Kind.ENCODER, batches, [1])
    assert set(rows["layer"]) == {1} and rows["information"].notna().all()
    assert told(model, Kind.ENCODER, batches, [2]).empty


def test_removal_as_published_is_that_of_each_head() -> None:
    rows = tables.typed("20", "heads").query("model == 'firefox-en-pt' and text == 'ntrex-pt'")
    found, own = published("firefox-en-pt").set_index(head_information.HEAD), rows.set_index("head")
    assert len(found) == len(own) == 64
    assert found.loc[("encoder", 6, 6), "added"] == own.loc["L6H6", "own_added"]
    assert found.loc[("cross", 1, 6), "added"] == own.loc["cross L1H6", "own_added"]
    assert (found["added"] != found["elsewhere"]).any() and published("nobody's").empty
