"""What is recorded beside a result."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headbook.runs import record


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    """A process asks once for its commit; a test for its own folder's."""
    forget()
    yield
    forget()


def forget() -> None:
    record.commit.cache_clear()
    record.changed.cache_clear()


def test_versions_name_what_is_there_and_what_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "PACKAGES", ("torch", "no-such-package"))
    versions = record.versions()
    assert versions["torch"].startswith("2.") and versions["no-such-package"] == "absent"


def test_the_commit_outside_git_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "REPOSITORY", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert record.commit() == "unknown"


def test_the_commit_says_when_the_source_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "REPOSITORY", tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1\n")
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*name, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    clean = record.commit()
    assert len(clean) == 12 and int(clean, 16) >= 0
    (tmp_path / "src" / "a.py").write_text("2\n")
    assert record.commit() == clean, "the code that this process has imported"
    forget()
    assert record.commit() == clean + "+" and record.changed() == ["src/a.py"]


def test_the_hardware_can_be_written_and_names_no_machine():
    hardware = record.hardware()
    assert hardware["cores"] > 0 and hardware["processor"]
    assert set(json.loads(json.dumps(hardware))) == {
        "processor", "cores", "gpu", "threads", "system", "bfloat16"
    }  # fmt: skip
