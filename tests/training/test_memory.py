"""The allocator settings: asked for where there is glibc, harmless elsewhere."""

import ctypes

import pytest

from headbook.training import memory


class Library:
    """A C library that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: dict[int, int] = {}

    def mallopt(self, name: int, value: int) -> int:
        self.asked[name] = value
        return 1


def test_every_setting_is_made(monkeypatch: pytest.MonkeyPatch):
    """M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of glibc's malloc.h, which takes C ints."""
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert memory.keep_freed_memory() is True
    assert library.asked.keys() == {-1, -2, -3}
    assert all(0 < value < 2**31 for value in library.asked.values())


def test_another_c_library_is_no_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert memory.keep_freed_memory() is False
    memory.give_back_freed_memory()
