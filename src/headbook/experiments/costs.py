"""Peak memory and processor time of a piece of work (page 48)."""

import time
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from headbook.paths import silence_profiler

ALLOCATED = "[memory]"


def peak_bytes(work: Callable[[], object]) -> int:
    """Most bytes that torch held at once on the processor beyond those before the work.

    Measured: torch's profiler reports every allocation and release, also those within a kernel.
    """
    silence_profiler()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = work()
    del result
    events = [event for event in recorded.profiler.kineto_results.events()
              if event.name() == ALLOCATED]  # fmt: skip
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time of the work: other processes hardly change it, waiting is free."""
    began = time.process_time()
    work()
    return time.process_time() - began
