"""The stage `speed`: what is timed is the same work, and sizes are those of the cut models."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from headbook.artefacts import speed as stage
from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.speed import Speed, SpeedRun, Task, decode, speed
from headbook.chapters.config import Config
from headbook.corpora.batches import PAD, pad
from headbook.models.decoding import Search, translate
from headbook.models.gates import all_heads
from headbook.pruning.surgery import take_out
from headbook.runs.store import Store
from headbook.types import HeadId, Kind, UserError

HALF = tuple(HeadId(kind, layer, 1) for kind in sorted(Kind) for layer in range(2))
EVERY = tuple(HeadId(kind, layer, n) for kind in Kind for layer in range(2) for n in range(2))
RUN = SpeedRun(((), HALF, EVERY), batches=(1, 4), tokens=3, rounds=2)


@pytest.fixture(scope="module")
def model() -> TrainedModel:
    return trained(Config("smoke", corpus="controlled-svo").one_model(), Store.default())


@pytest.fixture(scope="module")
def found(model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Speed:
    return speed(model, RUN, Store(tmp_path_factory.mktemp("speed")))


def test_every_model_is_timed_in_every_round_on_the_same_work(found: Speed) -> None:
    times = found.times
    keys = ["task", "batch", "mask", "round"]
    assert not times.duplicated(keys).any() and len(times) == 2 * 2 * 3 * 2
    assert set(times["task"]) == set(Task) and set(times["round"]) == {1, 2}
    assert (times["seconds"] > 0).all()
    assert (times.groupby(["batch", "task"])[["sentences", "tokens"]].nunique() == 1).all(axis=None)
    assert (times["tokens"] == 3 * times["sentences"]).all()


def test_models_take_turns(found: Speed) -> None:
    order = found.times[["round", "batch", "task", "mask"]]
    assert order["mask"].tolist() == [0, 1, 2] * 8
    assert order["round"].is_monotonic_increasing


def test_sizes_are_counted(found: Speed, model: TrainedModel) -> None:
    """Four widths times the width of a head, and three biases: 4 · 16 · 8 + 3 · 8 = 536."""
    sizes = found.sizes
    assert sizes["heads"].tolist() == [12, 6, 0]
    whole = sum(each.numel() for each in model.model().parameters())
    assert sizes["parameters"].tolist() == [whole, whole - 6 * 536, whole - 12 * 536]
    assert sizes["attention_parameters"].tolist() == [6 * 1088, 6 * 1088 - 6 * 536, 6 * 16]
    best = (model.folder / "best.safetensors").stat().st_size
    assert abs(sizes["bytes"][0] - best) < 1000 and sizes["bytes"].is_monotonic_decreasing
    assert sizes["bytes"][0] - sizes["bytes"][1] == pytest.approx(4 * 6 * 536, abs=200)


def test_keys_and_values_are_counted(found: Speed, model: TrainedModel) -> None:
    """Of 4 sentences and 2 layers, 16 numbers of 4 bytes per position, and as many values."""
    length = max(len(source) for source, _ in stage._sentences(model, 4))
    whole = 4 * 2 * 2 * 16 * 4 * (RUN.tokens + length)
    assert found.sizes["cached_bytes"].tolist() == [whole, whole // 2, 0]


def test_cut_and_gated_models_agree_and_the_heads_mattered(found: Speed) -> None:
    sizes = found.sizes
    assert (sizes["largest_difference"] <= 1e-5 * sizes["largest_logit"]).all()
    assert sizes["largest_difference"][0] == 0 and sizes["largest_logit"].nunique() == 3


def test_a_cut_that_is_none_is_seen(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_without", lambda whole, _mask: whole)
    run = SpeedRun(((), HALF), batches=(1,), tokens=1, rounds=1)
    sizes = speed(model, run, Store(tmp_path)).sizes
    assert sizes["heads"].tolist() == [12, 12]
    assert sizes["largest_difference"][1] > 1e-3 * sizes["largest_logit"][1]


def test_asked_again_nothing_is_measured_again(
    found: Speed, model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SpeedRun(((),), batches=(1,), tokens=1, rounds=1)
    first = speed(model, small, Store(tmp_path))
    monkeypatch.setattr(stage, "_measure", None)
    again = speed(model, small, Store(tmp_path))
    pd.testing.assert_frame_equal(first.times, again.times)
    assert again.hardware == found.hardware and "processor" in again.hardware


def test_decoding_is_greedy_and_goes_on_behind_the_end(model: TrainedModel) -> None:
    network = model.model()
    pairs = model.encode(model.corpus.valid.first(4))
    source = pad([source for source, _ in pairs])
    with torch.inference_mode():
        found = decode(network, source, 12)
        smaller = decode(take_out(network), source, 12)
    assert found.shape == (4, 12) and not (found == PAD).any()
    assert torch.equal(found, smaller)
    for row, hypothesis in zip(found.tolist(), translate(network, source, Search(1)), strict=True):
        assert row[: len(hypothesis)] == hypothesis[:12]


@pytest.mark.parametrize(("size", "count"), [(1, 8), (3, 2), (8, 1), (16, 1)])
def test_small_batches_are_several_and_spread_over_lengths(size: int, count: int) -> None:
    pairs = [([3] * length + [1], [1]) for length in range(1, 17)]
    batches = stage._batches(pairs, size)
    assert [len(batch) for batch in batches] == [size] * count
    lengths = torch.cat([batch.source_mask.sum(1) for batch in batches])
    assert len(lengths.unique()) == len(lengths)
    assert float(lengths.float().mean()) == pytest.approx(9.5, abs=1.01)


def test_too_few_sentences_are_repeated(model: TrainedModel) -> None:
    pairs = stage._sentences(model, 400)
    assert len(pairs) == 400
    assert [len(source) for source, _ in pairs] == sorted(len(source) for source, _ in pairs)


@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"tokens": 0}, {"batches": (4, 0)}])
def test_nothing_to_time_is_refused(wrong: dict) -> None:
    with pytest.raises(UserError, match="must be 1 or more"):
        SpeedRun(((),), **wrong)


def test_an_unknown_head_is_said(model: TrainedModel, tmp_path: Path) -> None:
    run = SpeedRun(((), (HeadId(Kind.CROSS, 7, 0),)), batches=(1,), tokens=1, rounds=1)
    with pytest.raises(UserError, match="no head cross L8H1"):
        speed(model, run, Store(tmp_path))
    assert not list(tmp_path.glob("*/*/run.json")) and len(all_heads(model.model())) == 12
