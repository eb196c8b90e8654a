"""Duration of a piece of work."""

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


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time of the work: other processes hardly change it, waiting is free."""
    began = time.process_time()
    work()
    return time.process_time() - began
