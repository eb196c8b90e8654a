"""A time limit stops whatever runs, and leaves no trace where nothing had to be stopped."""

import math
import signal

import pytest

from headbook.publishing import time_limit
from headbook.publishing.time_limit import TimeUpError, stopped_after
from headbook.types import UserError

ALARM = signal.SIGALRM


def for_ever() -> None:
    while True:
        pass


def test_work_is_stopped_and_the_clock_put_back():
    with pytest.raises(TimeUpError), stopped_after(0.05):
        for_ever()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(ALARM) == signal.SIG_DFL


def test_code_that_deals_with_failures_does_not_take_it_for_one():
    with pytest.raises(TimeUpError), stopped_after(0.05):
        try:
            for_ever()
        except Exception:
            pytest.fail("it is none")


def test_swallowed_once_it_is_said_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time_limit, "AGAIN", 0.05)
    swallowed = []
    with pytest.raises(TimeUpError), stopped_after(0.05):
        try:
            for_ever()
        except TimeUpError:
            swallowed.append(True)
        for_ever()
    assert swallowed


@pytest.mark.parametrize("seconds", [3600.0, math.inf])
def test_work_that_ends_in_time_is_left_alone(seconds: float):
    with stopped_after(seconds):
        done = sum(range(10))
    assert done == 45
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(ALARM) == signal.SIG_DFL


def test_a_system_without_such_a_clock_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(signal, "setitimer")
    with stopped_after(math.inf):
        pass
    with pytest.raises(UserError, match="Ctrl-C"), stopped_after(1.0):
        pass
