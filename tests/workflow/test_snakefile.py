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


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def strike(started: int, name: str, whom: str) -> psutil.Process:
    """kill -9 to Snakemake ("main"), its process that trains this model ("job"), or to both.

    The process of training is returned.
    """
    snakemake = psutil.Process(started)
    while snakemake.status() != psutil.STATUS_ZOMBIE:
        for each in snakemake.children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # just ended
                if each.cmdline()[-4:-2] == ["train", name]:
                    for process in [snakemake] * (whom != "job") + [each] * (whom != "main"):
                        process.kill()
                    return each
        time.sleep(0.05)
    raise AssertionError(f"nothing trained {name}")


def test_the_same_command_goes_on_after_a_kill(tmp_path: Path, snakemake: Program) -> None:
    store = tmp_path / "runs of two"
    store.mkdir()
    asked, there = arguments(f"{SHORT} {KILLED}"), {"HEADBOOK_RUNS": str(store)}

    def folder(name: str) -> Path | None:
        return folder_of(run(name), Store(store))

    for whom, status in (("job", 1), ("both", -signal.SIGKILL)):
        strike(snakemake.start(asked, store, **there), KILLED, whom)
        assert snakemake.wait().returncode == status and folder(SHORT) and not folder(KILLED)
    job = strike(snakemake.start(asked, store, **there), KILLED, "main")
    assert snakemake.wait().returncode == -signal.SIGKILL
    with suppress(psutil.NoSuchProcess):  # without its main process the job goes on to its end
        job.wait()
    again = snakemake.run(asked, store, **there)
    assert again.returncode == 0 and "rule train_" not in said(again)
    assert len([*(store / "model").glob("*/run.json")]) == 2 and folder(KILLED)
    assert not [*(store / "model").glob("*.unrecorded*")]
    folder(SHORT).rename(store / "away")
    dry = arguments(f"{SHORT} {KILLED}", "--dry-run", profile="slurm")
    planned = said(snakemake.run(dry, store, **there))
    assert f"train_{SHORT}" in planned and f"train_{KILLED}" not in planned


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
