"""What agrees with a published number: known answers by hand, and declarations that are real."""

import math

import pytest

from headbook import tables
from headbook.tolerances import TOLERANCES, USUAL, as_key, is_compared, same, tolerance

NAN = float("nan")


@pytest.mark.parametrize(
    ("now", "then", "agree"),
    [
        (1 / 3, 0.33333, True),
        (0.67, 0.66, False),
        (32.5004, 32.5, True),
        (1e-9, 0.0, True),
        (10_001, 10_000, False),
        ("L6H5", "L6H3", False),
        ("1", 1, False),
        (NAN, "", True),
        (NAN, 0.0, False),
        (math.inf, 3.0, False),
    ],
)
def test_what_agrees_and_what_does_not(now: object, then: object, agree: bool) -> None:
    assert same(now, then) is agree


def test_times_are_not_compared_and_all_else_is() -> None:
    """An end of an interval has its number's tolerance, and a row that of its question."""
    assert tolerance("52", "summary", "value_low") == tolerance("52", "summary", "value") != USUAL
    timed = [tolerance("24", "summary", "value_low", each)
             for each in tables.typed("24", "summary")["question"]]  # fmt: skip
    assert not is_compared(tolerance("43", "steps", "seconds"))
    assert {*map(is_compared, timed)} == {True, False}


@pytest.mark.parametrize(
    ("cell", "text"), [(4, "4"), (4.0, "4"), ("4", "4"), (NAN, ""), ("", ""), (1 / 3, "0.33333")]
)
def test_keys_are_compared_as_they_are_published(cell: object, text: str) -> None:
    assert as_key(cell) == text


def test_every_declared_tolerance_is_of_a_published_column_and_says_why() -> None:
    for (page, table, *question), columns in TOLERANCES.items():
        published = tables.typed(page, table)
        assert set(columns) <= set(published) and all(each.why for each in columns.values())
        assert not question or question[0] in set(published["question"])
