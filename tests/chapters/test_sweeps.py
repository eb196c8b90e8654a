"""A sweep is one run for each penalty, and only what is missing is run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of, trained
from headbook.artefacts.pruned import (
    ENCODER_ONLY,
    EVERYTHING,
    PrunedModel,
    PruningRun,
)
from headbook.chapters import sweeps
from headbook.chapters.config import Config
from headbook.runs.store import Store
from headbook.types import HeadId, Kind

SMOKE = Config("smoke", corpus="controlled-svo")


def heads(*counts: int, kind: Kind = Kind.ENCODER) -> tuple[HeadId, ...]:
    """The first so many heads of each layer."""
    return tuple(HeadId(kind, layer, n) for layer, count in enumerate(counts) for n in range(count))


WITH_SCRATCH = Config("laptop").scratch_models(alone=False)[0]


def base(run: ModelRun = WITH_SCRATCH) -> TrainedModel:
    """A model of a profile that nobody trained."""
    return TrainedModel(run, Path(), corpus_of("controlled-svo", 1))


def made(closed: tuple[HeadId, ...], folder: Path) -> PrunedModel:
    """A model of which nothing is there but the list of its closed heads."""
    where = folder / f"{abs(hash(closed))}"
    where.mkdir(exist_ok=True)
    notes = {"closed": [(str(head.kind), head.layer, head.head) for head in closed], "gates": []}
    (where / "heads.json").write_text(json.dumps(notes))
    whole = base()
    return PrunedModel(whole.run, where, whole.corpus, whole, whole.asked)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list:
    """What the stages are asked for; every learned model closes three heads of each block."""
    runs: list = []

    def stage(trained_on: TrainedModel, run: object, _store: object) -> PrunedModel:
        runs.append(run)
        inherited = getattr(trained_on, "closed", ())
        return made(inherited + getattr(run, "closed", heads(3, 3)), tmp_path)

    monkeypatch.setattr(sweeps, "pruned", stage)
    return runs


@pytest.mark.parametrize("kinds", [ENCODER_ONLY, EVERYTHING])
def test_a_sweep_is_one_run_a_penalty(asked: list, kinds: tuple[Kind, ...], tmp_path: Path) -> None:
    config, store = Config("laptop"), Store(tmp_path)
    found = list(sweeps.swept(base(), kinds, config, store))
    preset = config.preset.pruning
    expected = preset.penalties
    assert len(expected) >= 8 and tuple(point.penalty for point in found) == expected
    assert all(isinstance(run, PruningRun) and run.kinds == kinds for run in asked)
    training = replace(preset.training, seed=WITH_SCRATCH.training.seed)
    assert {run.training for run in asked} == {training}
    assert {point.arm for point in found} == {"gates"}


def test_a_sweep_started_again_does_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = trained(SMOKE.one_model(), Store.default())
    store = Store(tmp_path)
    next(sweeps.swept(model, EVERYTHING, SMOKE, store))
    done = {path.parent.name: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/run.json")}
    found = list(sweeps.swept(model, EVERYTHING, SMOKE, store))
    again = {path.parent.name: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/run.json")}
    assert len(found) == len(again) == 2 and done.items() <= again.items() and len(done) == 1
    assert found[0].made.asked.key in done
