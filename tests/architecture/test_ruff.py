"""No pickle, nothing evaluated, the environment read in one place: what pyproject.toml bans."""

import subprocess
import sys

from headbook import paths


def test_ruff_finds_nothing() -> None:
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "src", "book"]
    done = subprocess.run(ruff, cwd=paths.REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
