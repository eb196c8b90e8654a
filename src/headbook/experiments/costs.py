"""Peak memory and processor time of a piece of work (page 48)."""

import time
from collections.abc import Callable
from itertools import accumulate

from torch.profiler import ProfilerActivity, profile

from headbook.paths import silence_profiler


def peak_bytes(work: Callable[[], object]) -> int:
    """Most bytes that torch held at once on the processor beyond those before the work.

    Measured: torch's profiler reports every allocation and release, also those within a kernel.
    """
    silence_profiler()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = work()
    del result
    events = sorted(recorded.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    sizes = (event.nbytes() for event in events if event.name() == "[memory]")
    return max(accumulate(sizes, initial=0))


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time of the work: other processes hardly change it, waiting is free."""
    began = time.process_time()
    work()
    return time.process_time() - began
