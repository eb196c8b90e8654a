import math

import pytest

from headbook.formats import formatted
from headbook.types import UserError


@pytest.mark.parametrize(
    ("value", "form", "low", "high", "shown"),
    [
        (-0.062, "ptsci", -0.12, 0.01, "−6 points [−12, 1]"),
        (0.01, "pts", math.nan, math.nan, "1 point"),
        (-0.001, "%", math.nan, math.nan, "0\u00a0%"),
        (-1.44, "+.1fci", -2.3, 0.5, "−1.4 [−2.3, +0.5]"),
        (0.3149, "f", math.nan, math.nan, "0.31"),
        (math.nan, "%ci", 0, 1, ""),
        (0.042, ".1%ci", 0.042, 0.042, "4.2\u00a0%"),  # two of 48 in every resample
        ("L6H5", "", math.nan, math.nan, "L6H5"),
    ],
)
def test_a_value_is_shown_in_its_form(value, form, low, high, shown):
    assert formatted(value, form, low, high) == shown


@pytest.mark.parametrize(("value", "form"), [(1.0, "percent"), ("L6H5", "%")])
def test_an_unknown_form_and_text_for_a_number_are_refused(value, form):
    with pytest.raises(UserError):
        formatted(value, form)
