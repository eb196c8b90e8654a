"""Record of a run beside its key: commit, versions, hardware, time."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from headbook.machine import multiplies_bfloat16
from headbook.paths import REPOSITORY

PACKAGES = ("headbook", "torch", "numpy", "lightning-fabric", "tokenizers", "sacrebleu", "spacy")


def versions() -> dict[str, str]:
    """Installed versions of the packages that can move a number; 'absent' where one is missing."""
    return {name: _version(name) for name in PACKAGES}


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


@cache
def commit() -> str:
    """The repository's commit, with '+' where files differ from it; 'unknown' outside git.

    As first asked in this process: later commits do not change the code that it has imported.
    """
    found = _git("rev-parse", "--short=12", "HEAD")
    return found + ("+" if changed() else "") if found else "unknown"


@cache
def changed() -> list[str]:
    """Files of source and notebooks that differ from the commit, as first asked in this process."""
    lines = _git("status", "--porcelain", "--", "src", "notebooks").splitlines()
    return sorted(line.split(maxsplit=1)[1] for line in lines)


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def hardware() -> dict[str, Any]:
    """Processor, cores, accelerator and its arithmetic, without the machine's name."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"processor": _processor(), "cores": os.cpu_count(), "gpu": gpu,
            "threads": torch.get_num_threads(), "system": platform.system(),
            "bfloat16": multiplies_bfloat16()}  # fmt: skip


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
