"""Snakemake trains what the store lacks, and goes on where a training was killed."""

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from forking import Program

import headbook.workflow as workflow
from headbook.runs.store import Store
from headbook.training.models import run
from headbook.training.train import folder_of

pytestmark = pytest.mark.slow
HERE = Path(workflow.__file__).parent
SHORT, KILLED = "controlled-sov-16-short", "controlled-sov-32-short"


def arguments(models: str, *more: str, profile: str = "local") -> list[str]:
    given = ["--config", f"models={models}"] if models else []
    return ["--snakefile", str(HERE / "Snakefile"), "--profile", str(HERE / profile), *more, *given]


@pytest.fixture(scope="module")
def snakemake() -> Iterator[Program]:
    imports = "import headbook.training.listing\nfrom snakemake.cli import main"
    with Program(imports, "main") as program:
        yield program


def has(store: Path, name: str) -> bool:
    return folder_of(run(name), Store(store)) is not None


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def strike(started: int, name: str, whom: str = "job") -> psutil.Process | None:
    """kill -9 to Snakemake ("main"), the process that trains this model ("job") or both of them.

    As soon as there is such a job, which is returned; None where there was none.
    """
    with suppress(psutil.NoSuchProcess):  # snakemake has ended
        snakemake = psutil.Process(started)
        while snakemake.status() != psutil.STATUS_ZOMBIE:
            for each in snakemake.children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # just ended, waited for or not yet
                    if [*each.cmdline()[-4:-2]] == ["train", name]:
                        if whom != "job":
                            snakemake.kill()
                        if whom != "main":
                            each.kill()
                        return each
            time.sleep(0.05)
    return None


def test_a_killed_training_is_trained_by_the_same_command(
    tmp_path: Path, snakemake: Program
) -> None:
    store = tmp_path / "runs of two"
    store.mkdir()
    both = f"{SHORT} {KILLED}"
    struck = strike(snakemake.start(arguments(both), store, HEADBOOK_RUNS=str(store)), KILLED)
    first = snakemake.wait()
    assert struck and first.returncode == 1, said(first)
    assert has(store, SHORT) and not has(store, KILLED)
    again = snakemake.run(arguments(both), store, HEADBOOK_RUNS=str(store))
    assert again.returncode == 0, said(again)
    assert has(store, KILLED)
    assert f"train_{KILLED}" in said(again) and f"train_{SHORT}" not in said(again)
    folder_of(run(SHORT), Store(store)).rename(store / "away")
    dry = arguments(both, "--dry-run", profile="slurm")
    planned = snakemake.run(dry, store, HEADBOOK_RUNS=str(store))
    assert f"train_{SHORT}" in said(planned) and f"train_{KILLED}" not in said(planned)
    (store / "away").rename(store / "model" / "away")
    planned = snakemake.run(dry, store, HEADBOOK_RUNS=str(store))
    assert planned.returncode == 0 and "rule train_" not in said(planned)


@pytest.mark.parametrize("whom", ["main", "both"])
def test_a_record_outlives_a_killed_snakemake(
    tmp_path: Path, snakemake: Program, whom: str
) -> None:
    asked = arguments(SHORT)
    job = strike(snakemake.start(asked, tmp_path, HEADBOOK_RUNS=str(tmp_path)), SHORT, whom)
    assert job is not None and snakemake.wait().returncode == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):  # without its main process the job goes on to its end
        job.wait()
    assert has(tmp_path, SHORT) == (whom == "main")
    for _ in range(2):
        again = snakemake.run(asked, tmp_path, HEADBOOK_RUNS=str(tmp_path))
        assert again.returncode == 0 and has(tmp_path, SHORT), said(again)
    assert len([*(tmp_path / "model").glob("*/run.json")]) == 1
    assert not [*(tmp_path / "model").glob("*.unrecorded*")]


@pytest.mark.parametrize(
    ("models", "profile", "status", "lines"),
    [
        ("tatoeba-de-{width}", "slurm", 0, [f"rule train_tatoeba-de-{n}:" for n in (64, 256)]),
        ("", "local", 1, ["name models of the catalogue"]),
        ("contrlled-sov-16", "local", 1, ["did you mean controlled-sov-16"]),
    ],
)
def test_a_queue_gets_a_job_per_model_and_a_wrong_name_is_one_line(
    snakemake: Program, tmp_path: Path, models: str, profile: str, status: int, lines: list[str]
) -> None:
    dry = arguments(models, "--dry-run", profile=profile)
    done = snakemake.run(dry, tmp_path, HEADBOOK_RUNS=str(tmp_path))
    assert done.returncode == status, said(done)
    assert all(line in said(done) for line in lines) and "Traceback" not in said(done)
