"""The allocator settings: asked for where there is glibc, harmless elsewhere."""

import ctypes

import pytest

from headbook.training import memory

# M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of glibc's malloc.h
SETTINGS = {-1: memory.NEVER, -2: memory.GROWTH, -3: memory.LARGEST_KEPT}

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


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
    memory.give_back_freed_memory()
