"""Stopping in time, whatever is being computed."""

import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from headbook.types import UserError

AGAIN = 5.0
"""Seconds until it is said once more: in a destructor Python swallows what is raised."""


class TimeUpError(BaseException):
    """Time is up. Like Ctrl-C, it is no failure that code on the way could deal with."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raises TimeUpError in the block, which runs in the main thread, when so many have passed.

    A run that was under way continues from its last checkpoint the next time. UserError where the
    system has no such clock, unless there is no limit.
    """
    if math.isinf(seconds):
        yield
        return
    if not hasattr(signal, "setitimer"):
        raise UserError("no time limit on this system: stop with Ctrl-C, and call it again")

    def stop(*_: object) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
