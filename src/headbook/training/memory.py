"""Keeping freed memory instead of giving it back after every tensor."""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
KEPT_BYTES = 1 << 30


def keep_freed_memory() -> bool:
    """Asks glibc to reuse freed blocks of up to 1 GiB; false where there is no glibc.

    By default every tensor above 128 KiB is a fresh mapping whose pages must be zeroed: measured on
    two cores, this setting raises training from about 4,000 to about 7,500 tokens a second.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(MMAP_THRESHOLD, KEPT_BYTES)) and bool(mallopt(TRIM_THRESHOLD, KEPT_BYTES))


def give_back_freed_memory() -> None:
    """Returns what is free now to the system: called now and then, it bounds fragmentation, with
    which a process of ragged batches grew past 9 GiB."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
