"""The allocator settings: asked for where there is glibc, harmless elsewhere."""

import ctypes
import platform
import subprocess
import sys

import pytest

from headbook.training import memory

# M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of glibc's malloc.h
SETTINGS = {-1: memory.NEVER, -2: memory.GROWTH, -3: memory.LARGEST_KEPT}

AGAIN = """
import resource
import torch
from headbook.training.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(64 * 8 * 256 * 256)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = min(faults() for _ in range(16))
assert keep_freed_memory()
kept = min(faults() for _ in range(16))
print(fresh, kept)
"""
"""Pages that a tensor touches for the first time, as large as eight heads' weights; at first
the heap still grows."""


class Library:
    """A C library that notes what it is asked for."""

    def __init__(self, refused: int | None = None) -> None:
        self.refused = refused
        self.asked: dict[int, int] = {}
        self.trimmed: list[int] = []

    def mallopt(self, name: int, value: int) -> int:
        self.asked[name] = value
        return int(name != self.refused)

    def malloc_trim(self, kept: int) -> int:
        self.trimmed.append(kept)
        return 1


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: made)
    return made


def test_every_setting_is_made(library: Library):
    assert memory.keep_freed_memory() is True
    assert library.asked == SETTINGS
    assert all(0 < value < 2**31 for value in SETTINGS.values()), "mallopt takes a C int"


def test_a_refused_setting_is_told_and_the_others_are_made(library: Library):
    library.refused = -3
    assert memory.keep_freed_memory() is False
    assert library.asked == SETTINGS


def test_all_free_memory_is_given_back(library: Library):
    memory.give_back_freed_memory()
    assert library.trimmed == [0]


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
    memory.give_back_freed_memory()


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked")
def test_a_large_tensor_lies_where_the_last_one_lay():
    done = subprocess.run([sys.executable, "-c", AGAIN], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    fresh, kept = map(int, done.stdout.split())
    assert kept < 100 < fresh
