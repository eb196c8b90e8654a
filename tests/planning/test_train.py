"""`headbook train`: what a profile lacks is trained, cut where time runs out, and goes on."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from headbook.chapters import config
from headbook.chapters.profile import PROFILES, Profile
from small import backwards, write_pairs
from typer.testing import CliRunner, Result

from headbook.artefacts.language import LanguageRun
from headbook.artefacts.model import ModelRun, Size
from headbook.cli import app
from headbook.models.decoding import Search
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.training.processes import Clock, Due

pytestmark = pytest.mark.slow

UPDATES = 6
SUBJECTS = ("the dog", "a cat", "the old man", "my sister", "one bird")
VERBS = ("sees", "follows", "likes", "finds")
OBJECTS = ("the ball", "a red house", "the small tree", "water")


def headbook(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [f"{s} {v} {o}".split() for s in SUBJECTS for v in VERBS for o in OBJECTS]
    return write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 10)


@pytest.fixture(autouse=True)
def profile(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ModelRun, ...]:
    """`quick` is two models of width 16 with dropout, six updates each."""
    training = TrainingConfig(
        UPDATES, 200, warmup=4, precision=Precision.FULL, validate_every=2, first_snapshot=2
    )
    size = Size(layers=1, width=16, feed_forward=32, heads=2)
    run = ModelRun(str(corpus), size, 60, 0.2, training, search=Search(1, longest=0.2))
    models = (run, run.with_seed(1))
    tiny = Profile(models, PROFILES["smoke"].pruning)
    monkeypatch.setattr(config, "PROFILES", {"quick": tiny})
    return models


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    return Store(tmp_path / "runs")


def stop_after(monkeypatch: pytest.MonkeyPatch, update: int) -> None:
    """Time runs out after so many updates of this process."""
    passed = iter(range(1, update + 1))

    def due(self: Clock) -> Due:
        return Due.STOP if next(passed, update) == update else Due.NOTHING

    monkeypatch.setattr(Clock, "due", due)


def results(store: Store) -> dict[str, object]:
    """Every file of every finished run but its record; curves without their seconds."""
    found: dict[str, object] = {}
    for record in sorted((store.root / "model").glob("*/run.json")):
        for path in record.parent.iterdir():
            if path.name == "curve.csv":
                curve = pd.read_csv(path).drop(columns="seconds")
                found[f"{record.parent.name} {path.name}"] = curve.to_csv()
            elif path != record:
                found[f"{record.parent.name} {path.name}"] = path.read_bytes()
    return found


def test_what_is_missing_is_trained_and_the_rest_is_kept(store: Store, corpus: Path):
    first = headbook("train", "--seed", "1")
    assert (first.exit_code, first.stdout.count("\n")) == (0, 1)
    assert f"{corpus} seed 1: trained" in first.stdout
    lines = headbook("train").stdout.splitlines()
    assert lines[0].startswith(f"{corpus} seed 0: trained") and lines[1] == f"{corpus} seed 1: kept"
    again = headbook("train")
    assert again.exit_code == 0 and again.stdout.count(": kept\n") == 2


def test_cut_and_continued_it_ends_bit_for_bit_as_uncut(
    store: Store, tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
):
    """Cut twice in the first model, once at the end of its updates, and once in the second."""
    for cut, said in (
        (1, f"{corpus} seed 0 stopped at update 1 of 6"),
        (2, f"{corpus} seed 0 stopped at update 3 of 6"),
        (3, f"{corpus} seed 0 stopped at update 6 of 6"),
        (4, f"{corpus} seed 1 stopped at update 4 of 6"),
    ):
        with monkeypatch.context() as patch:
            stop_after(patch, cut)
            result = headbook("train", "--minutes", "1000")
        assert result.exit_code == 3
        assert result.stdout.splitlines()[-1] == f"{said}; the same command continues"
    assert headbook("train", "--minutes", "1000").exit_code == 0
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "uncut"))
    assert headbook("train").exit_code == 0
    assert len(results(store)) == 2 * 10
    assert results(store) == results(Store(tmp_path / "uncut"))
    assert not list((store.root / "model").glob("*.partial"))


def test_no_model_is_begun_when_time_is_up(store: Store, corpus: Path):
    result = headbook("train", "--minutes", "1e-9")
    assert (result.exit_code, result.stdout) == (
        3,
        f"stopped before {corpus} seed 0; the same command continues\n",
    )
    assert not list(store.root.glob("model/*.partial"))


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_no_time_at_all_is_a_mistake(store: Store, minutes: str):
    result = headbook("train", "--minutes", minutes)
    assert (result.exit_code, result.stdout) == (2, "")
    shown = minutes if minutes == "nan" else f"{float(minutes)}"
    assert result.stderr == f"headbook: minutes is {shown}; give more than 0\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--profile", "smok"), "unknown profile 'smok'"),
        (("--size", "large"), "unknown size 'large'"),
        (("--seed", "-1"), "seed is -1"),
        (("--corpus", "controlled-osv"), "controlled-sov"),
    ],
)
def test_a_mistake_is_one_line(store: Store, arguments: tuple[str, ...], said: str):
    result = headbook("train", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1 and said in result.stderr


def test_help_tells_the_status():
    result = headbook("train", "--help")
    assert result.exit_code == 0 and "--minutes" in result.stdout
    assert "0 when all models are there, 3 when time ran out" in " ".join(result.stdout.split())


@pytest.mark.parametrize("command", ["run", "publish"])
def test_what_processes_cannot_share_is_refused(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "planted")
    done = headbook(command, "01")
    assert done.exit_code == 2
    assert "torchrun is for `headbook train`" in done.output


def test_language_models_and_their_variants_are_trained_too(
    store: Store, corpus: Path, profile: tuple[ModelRun, ...], monkeypatch: pytest.MonkeyPatch
):
    """Cut on the way it goes on where it was."""
    training = replace(profile[0].training, label_smoothing=0.0)
    varied = LanguageRun(str(corpus), Size(1, 32, 64, 2), 60, 0.1, training, context=8)
    tiny = Profile(profile[:1], PROFILES["smoke"].pruning, varied=varied, layers=None)
    monkeypatch.setattr(config, "PROFILES", {"quick": tiny})
    with monkeypatch.context() as patch:
        stop_after(patch, 10)
        assert headbook("train", "--minutes", "1000").exit_code == 3
    result = headbook("train")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 4  # translation; the base, DeLighT's blocks, and as many weights
    assert headbook("train").stdout.count(": kept\n") == len(lines)
