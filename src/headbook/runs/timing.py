"""How long a piece of work takes."""

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of the work, until an accelerator is done with it too."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began
