"""The workflows call commands of the Makefile and nothing else."""

import re

import yaml

from headbook import paths

FOLDER = paths.REPOSITORY / ".github" / "workflows"


def test_workflows_run_targets_of_the_makefile_and_nothing_else() -> None:
    targets = re.findall(r"^(\w+):", (paths.REPOSITORY / "Makefile").read_text("utf-8"), re.M)
    run = {}
    for file in FOLDER.glob("*.yml"):
        jobs = yaml.safe_load(file.read_text("utf-8"))["jobs"].values()
        run[file.stem] = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert run == {"book": ["make book"], "test": ["make test", "make book"]}
    assert {"book", "test"} <= set(targets)
