"""Snakemake trains what the store lacks, and goes on where a training was killed."""

import json
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
DRY = """
import json, os, sys
from snakemake.cli import main
import headbook.artefacts.catalogue  # once, which takes seconds
statuses = []
for number, arguments in enumerate(json.load(sys.stdin)):
    if not (process := os.fork()):
        log = os.open(f"{number}.log", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1), os.dup2(log, 2)
        main(arguments)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(json.dumps(statuses))
"""
"""Dry runs of snakemake with the arguments of each, forked from one process."""
PLANNED = {
    "a family": ("{corpus}-16", "slurm"),
    "no name": ("", "local"),
    "a wrong name": ("contrlled-sov-16", "local"),
}


def arguments(models: str, *more: str, profile: str = "local") -> list[str]:
    given = ["--config", f"models={models}"] if models else []
    return ["--snakefile", str(HERE / "Snakefile"), "--profile", str(HERE / profile), *more, *given]


def snakemake(store: Path, models: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", *arguments(models)], env=variables(store), cwd=store,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def variables(store: Path) -> dict[str, str]:
    return os.environ | {"HEADBOOK_RUNS": str(store)}


def plan(store: Path, *wanted: tuple[str, str]) -> list[tuple[int, str]]:
    """How a dry run of these models with this profile ends, and what it says."""
    given = [arguments(models, "--dry-run", profile=profile) for models, profile in wanted]
    done = subprocess.run([sys.executable, "-c", DRY], input=json.dumps(given), cwd=store,
                          env=variables(store), text=True, stdout=subprocess.PIPE)  # fmt: skip
    statuses = json.loads(done.stdout)
    return [
        (status, (store / f"{number}.log").read_text()) for number, status in enumerate(statuses)
    ]


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


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    found = plan(tmp_path_factory.mktemp("empty store"), *PLANNED.values())
    return dict(zip(PLANNED, found, strict=True))


def test_a_queue_gets_a_job_per_model_of_a_family(planned: dict[str, tuple[int, str]]) -> None:
    status, said = planned["a family"]
    assert status == 0, said
    for corpus in ("sov", "svo", "vso"):
        assert f"rule train_controlled-{corpus}-16:" in said


@pytest.mark.parametrize(
    ("which", "line"),
    [
        ("no name", "name models of the catalogue"),
        ("a wrong name", "did you mean controlled-sov-16"),
    ],
)
def test_a_wrong_name_is_one_line(
    planned: dict[str, tuple[int, str]], which: str, line: str
) -> None:
    status, said = planned[which]
    assert status == 1
    assert line in said and "Traceback" not in said
