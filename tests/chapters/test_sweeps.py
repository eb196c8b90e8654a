"""The sweeps' controls: how many heads, which, and at which points."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of, trained
from headbook.artefacts.pruned import (
    ENCODER_ONLY,
    EVERYTHING,
    ControlRun,
    PrunedModel,
    PruningRun,
    Start,
)
from headbook.chapters import sweeps
from headbook.chapters.config import Config
from headbook.chapters.sweeps import Point, controlled, shuffled
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


def in_blocks(closed: tuple[HeadId, ...]) -> dict[tuple[Kind, int], int]:
    blocks: dict[tuple[Kind, int], int] = {}
    for head in closed:
        blocks[head.kind, head.layer] = blocks.get((head.kind, head.layer), 0) + 1
    return blocks


def test_random_heads_are_as_many_in_every_block() -> None:
    closed = heads(3, 0, 8, 1) + heads(2, 5, kind=Kind.CROSS)
    drawn = shuffled(closed, 8, seed=0)
    assert in_blocks(drawn) == in_blocks(closed)
    assert len(set(drawn)) == len(drawn) and max(head.head for head in drawn) == 7
    assert set(heads(0, 0, 8)) <= set(drawn)


def test_random_heads_are_drawn_and_not_copied() -> None:
    closed = heads(*[4] * 6)
    draws = [shuffled(closed, 8, seed) for seed in range(3)]
    assert len(set(draws)) == 3 and closed not in draws
    assert shuffled(closed, 8, 0) == draws[0]
    share = sum(head in closed for draw in draws for head in draw) / 72
    assert 0.25 < share < 0.75  # half of eight heads are hit half of the time


def test_no_closed_head_gives_none() -> None:
    assert shuffled((), 8, 0) == ()


@pytest.mark.parametrize(
    ("counts", "number", "expected"),
    [
        ((1, 2, 3, 4, 5, 6, 7, 8), 4, [1, 3, 6, 8]),
        ((8, 1, 4), 2, [1, 8]),
        ((0, 5, 2), 4, [2, 5]),
        ((3, 3, 3), 4, [3]),
        ((0, 0), 4, []),
        ((2, 6, 4), 1, [2]),
        ((2, 6, 4), 0, []),
    ],
)
def test_controls_spread_over_the_counts(
    counts: tuple[int, ...], number: int, expected: list[int], tmp_path: Path
) -> None:
    points = [
        Point("gates", float(n), made(heads(count), tmp_path)) for n, count in enumerate(counts)
    ]
    assert [len(point.closed) for point in controlled(points, number)] == expected


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list:
    """What the stages are asked for; every learned model closes three heads of each block."""
    runs: list = []

    def stage(trained_on: TrainedModel, run: object, _store: object) -> PrunedModel:
        runs.append(run)
        inherited = getattr(trained_on, "closed", ())
        return made(inherited + getattr(run, "closed", heads(3, 3)), tmp_path)

    monkeypatch.setattr(sweeps, "pruned", stage)
    monkeypatch.setattr(sweeps, "control", stage)
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


def test_controls_are_trained_as_what_they_control(asked: list, tmp_path: Path) -> None:
    config, store = Config("laptop"), Store(tmp_path)
    whole_model = base()
    found = list(sweeps.swept(whole_model, EVERYTHING, config, store))
    learned = asked[0]
    asked.clear()
    (drawn,) = sweeps.random_controls(whole_model, EVERYTHING, found, config, store)
    (scratch,) = sweeps.scratch_controls(whole_model, EVERYTHING, found, config, store)
    whole = sweeps.further(whole_model, EVERYTHING, config, store)
    random_run, scratch_run, scratch_further, whole_run = asked
    assert all(isinstance(run, ControlRun) for run in asked)
    assert random_run.training == whole_run.training == learned.training
    assert scratch_further == whole_run, "as much training as the pruned models had"
    assert random_run.start is whole_run.start is Start.TRAINED
    assert scratch_run.start is Start.SCRATCH and scratch_run.training == whole_model.run.training
    assert scratch.closed == found[-1].closed and drawn.closed != found[-1].closed
    assert in_blocks(drawn.closed) == in_blocks(found[-1].closed) and whole.closed == ()
    assert [each.arm for each in (drawn, scratch, whole)] == [
        "random heads", "from scratch", "nothing closed",
    ]  # fmt: skip
    assert drawn.penalty == scratch.penalty == found[-1].penalty and math.isnan(whole.penalty)


@pytest.mark.parametrize(
    "run", [WITH_SCRATCH.with_seed(7), replace(WITH_SCRATCH, corpus="another")]
)
def test_one_model_of_some_corpora_has_controls_from_scratch(
    asked: list, tmp_path: Path, run: ModelRun
) -> None:
    config, store, other = Config("laptop"), Store(tmp_path), base(run)
    found = list(sweeps.swept(other, EVERYTHING, config, store))
    assert not list(sweeps.scratch_controls(other, EVERYTHING, found, config, store))
    assert list(sweeps.random_controls(other, EVERYTHING, found, config, store))


def test_gates_in_the_encoder_have_them_where_they_are_named(asked: list, tmp_path: Path) -> None:
    config, store = Config("laptop"), Store(tmp_path)
    everywhere = [base(run) for run in config.scratch_models(alone=False)]
    alone = config.scratch_models(alone=True)
    for model in everywhere:
        found = list(sweeps.swept(model, ENCODER_ONLY, config, store))
        made_of = list(sweeps.scratch_controls(model, ENCODER_ONLY, found, config, store))
        assert bool(made_of) is (model.run in alone)
    assert 0 < len(alone) < len(everywhere)


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


def learning(folder: Path, **losses: float) -> PrunedModel:
    """A model with these validation losses after so many updates, `u100` for a hundred."""
    model = made(heads(len(list(folder.iterdir()))), folder)
    rows = [f"{name[1:]},{loss}" for name, loss in losses.items()]
    (model.folder / "curve.csv").write_text("\n".join(["update,valid_loss_nats", *rows]))
    return model


def test_a_pruned_model_at_its_plateau_counts(tmp_path: Path) -> None:
    """Over the last sixth: what it learnt before that does not matter."""
    still = learning(tmp_path, u200=2.0, u1000=1.504, u1200=1.5)
    assert sweeps.fall(still) == pytest.approx(0.004)
    assert sweeps.still_learning([still]) == {}


def test_one_that_still_learns_closes_the_gate_for_all(tmp_path: Path) -> None:
    """The planted fault: a loss that fell by six thousandths."""
    still = learning(tmp_path, u1000=1.5, u1200=1.5)
    falls = learning(tmp_path, u1000=1.506, u1100=1.5, u1200=1.5)
    said = sweeps.still_learning([still, falls])["closed"]
    assert said == (
        "converged: the loss of pruned models still fell by 0.006 nats in their last updates"
    )
    unseen = learning(tmp_path, u1100=1.5, u1200=1.5)
    assert "was not validated before" in sweeps.still_learning([unseen])["closed"]
