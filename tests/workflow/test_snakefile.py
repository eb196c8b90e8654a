"""Snakemake trains what the store lacks, and goes on where a training was killed."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import headbook.workflow as workflow
from headbook.artefacts import catalogue
from headbook.runs.store import Store

pytestmark = pytest.mark.slow
HERE = Path(workflow.__file__).parent
SHORT, KILLED = "controlled-sov-16-short", "controlled-sov-32-short"


def snakemake(store: Path, models: str, *more: str, profile: str = "local") -> subprocess.Popen:
    command = [sys.executable, "-m", "snakemake", "--snakefile", HERE / "Snakefile",
               "--profile", HERE / profile, *more]  # fmt: skip
    if models:
        command += ["--config", f"models={models}"]
    environment = os.environ | {"HEADBOOK_RUNS": str(store)}
    return subprocess.Popen(
        command, env=environment, cwd=store, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def has(store: Path, name: str) -> bool:
    return Store(store).has(catalogue.run(name).ingredients())


def kill_training(run: subprocess.Popen, name: str) -> None:
    """kill -9 to the process that trains this model, as soon as there is one."""
    while run.poll() is None:
        for each in psutil.Process(run.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # one that has just ended, waited for or not yet
                if [*each.cmdline()[-4:-2]] == ["train", name]:
                    each.kill()
                    return
        time.sleep(0.05)
    raise AssertionError(f"{name} was not trained:\n{run.stdout.read()}")


def test_a_killed_training_is_trained_by_the_same_command(tmp_path: Path) -> None:
    store = tmp_path / "runs of two"
    store.mkdir()
    first = snakemake(store, f"{SHORT} {KILLED}")
    kill_training(first, KILLED)
    said, _ = first.communicate()
    assert first.returncode == 1, said
    assert has(store, SHORT) and not has(store, KILLED)
    again = snakemake(store, f"{SHORT} {KILLED}")
    said, _ = again.communicate()
    assert again.returncode == 0, said
    assert has(store, KILLED)
    assert f"train_{KILLED}" in said and f"train_{SHORT}" not in said
    planned = snakemake(store, f"{SHORT} {KILLED}", "--dry-run", profile="slurm")
    said, _ = planned.communicate()
    assert planned.returncode == 0 and "Nothing to be done" in said


def test_a_queue_gets_a_job_per_model_of_a_family(tmp_path: Path) -> None:
    planned = snakemake(tmp_path, "{corpus}-16", "--dry-run", profile="slurm")
    said, _ = planned.communicate()
    assert planned.returncode == 0, said
    for corpus in ("sov", "svo", "vso"):
        assert f"rule train_controlled-{corpus}-16:" in said


@pytest.mark.parametrize(
    ("models", "line"),
    [("", "name models of the catalogue"), ("contrlled-sov-16", "did you mean controlled-sov-16")],
)
def test_a_wrong_name_is_one_line(tmp_path: Path, models: str, line: str) -> None:
    refused = snakemake(tmp_path, models, "--dry-run")
    said, _ = refused.communicate()
    assert refused.returncode == 1
    assert line in said and "Traceback" not in said
