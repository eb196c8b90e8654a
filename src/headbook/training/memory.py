"""Keeping freed memory instead of giving it back after every tensor."""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGEST_KEPT = 1 << 29  # the weights of sixteen heads in 64 segments of 256 pieces take half of it
GROWTH = 1 << 28
NEVER = (1 << 31) - 1


def keep_freed_memory() -> bool:
    """Asks glibc to reuse freed blocks of up to 512 MiB; false where there is no glibc.

    By default every large tensor is a fresh mapping whose pages must be zeroed first, which takes
    about as long as attention itself.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    wanted = {MMAP_THRESHOLD: LARGEST_KEPT, TRIM_THRESHOLD: NEVER, TOP_PAD: GROWTH}
    return all([mallopt(name, value) for name, value in wanted.items()])


def give_back_freed_memory() -> None:
    """Returns what is free now to the system: called now and then, it bounds fragmentation, with
    which a process of ragged batches grows by gigabytes."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
