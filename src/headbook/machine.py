"""Capabilities of the machine and its files, and what makes it quicker."""

import ctypes
import hashlib
from contextlib import suppress
from pathlib import Path

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
LARGEST_KEPT = 1 << 29  # the weights of sixteen heads in 64 segments of 256 pieces take half of it
GROWTH = 1 << 28
NEVER = (1 << 31) - 1


def multiplies_bfloat16() -> bool:
    """Whether the accelerator, or else the processor, has instructions for bfloat16 products."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def accelerator() -> str:
    """The device on which long computations run: "cuda" where there is one, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def leave_out_cudnn_attention() -> None:
    """Leaves fused attention to kernels that need no plan.

    cuDNN makes one for every shape of a batch: where lengths vary an update took 0.30 s with it on
    an H200, and 0.06 s without.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def keep_freed_memory() -> None:
    """Asks glibc, where there is one, to reuse freed blocks of up to 512 MiB.

    By default every large tensor is a fresh mapping whose pages must be zeroed first, which takes
    about as long as attention itself.
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(TRIM_THRESHOLD, NEVER)
        mallopt(TOP_PAD, GROWTH)


def give_back_freed_memory() -> None:
    """Returns what is free now to the system: called now and then, it bounds fragmentation, with
    which a process of ragged batches grows by gigabytes."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
