"""The workflows call the two commands, and publish the folder that the book is built into."""

import re

import yaml

from headbook import paths

FOLDER = paths.REPOSITORY / ".github" / "workflows"


def test_workflows_run_targets_of_the_makefile_and_nothing_else() -> None:
    targets = re.findall(r"^(\w+):", (paths.REPOSITORY / "Makefile").read_text("utf-8"), re.M)
    run = []
    for file in sorted(FOLDER.glob("*.yml")):
        jobs = yaml.safe_load(file.read_text("utf-8"))["jobs"].values()
        run += [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert sorted(run) == ["make book", "make test"]
    assert {"book", "test"} <= set(targets)
