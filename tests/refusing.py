"""What a user can mend is said in one line."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

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
