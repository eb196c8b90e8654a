"""What is recorded beside a result."""

import subprocess
from pathlib import Path

import pytest
import torch

from headbook.runs import record


def forget() -> None:
    record.commit.cache_clear()
    record.changed.cache_clear()


def test_the_commit_says_when_the_source_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a process asks once for it; unknown outside git."""
    monkeypatch.setattr(record, "REPOSITORY", tmp_path)
    forget()
    assert record.commit() == "unknown"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1\n")
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    forget()
    clean = record.commit()
    assert len(clean) == 12 and int(clean, 16) >= 0
    (tmp_path / "src" / "a.py").write_text("2\n")
    assert record.commit() == clean, "the code that this process has imported"
    forget()
    assert record.commit() == clean + "+" and record.changed() == ["src/a.py"]
    forget()


def test_what_is_not_installed_is_absent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "PACKAGES", ("torch", "no-such-package"))
    assert record.versions() == {"torch": torch.__version__, "no-such-package": "absent"}
