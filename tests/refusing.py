"""What a user can mend is said in one line."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner, Result

from headbook.types import UserError


@contextmanager
def refused(*said: str) -> Iterator[None]:
    """What happens within is refused with one line that says all of this, each a pattern."""
    with pytest.raises(UserError) as caught:
        yield
    line = str(caught.value)
    assert "\n" not in line and all(re.search(each, line) for each in said), line


def refuses(call: Callable[[], object], *said: str) -> None:
    """So is what this call asks for."""
    with refused(*said):
        call()


def headbook(*arguments: str) -> Result:
    """The command line, run with these arguments."""
    from headbook.cli import app

    return CliRunner().invoke(app, list(arguments))


def assert_one_line(result: Result, *said: str) -> None:
    """Status 2, nothing on the output, one line of explanation without a trace."""
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert isinstance(result.exception, SystemExit)
    for each in ("headbook: ", *said):
        assert each in result.stderr
