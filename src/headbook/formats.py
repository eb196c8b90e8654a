"""Numbers as a reader sees them: one place for per cent, points, intervals and minus signs."""

import math
import re

from headbook.types import UserError

NO_BREAK = "\u00a0"
FORM = re.compile(r"(?P<sign>\+?)(?:\.(?P<digits>\d))?(?P<unit>%|pts|f|n)(?P<interval>ci)?")
UNITS = {"%": (100, f"{NO_BREAK}%"), "pts": (100, " points"), "f": (1, ""), "n": (1, "")}
"""Factor and what stands behind the number, by unit."""


def formatted(
    value: object, form: str, low: float | int = math.nan, high: float | int = math.nan
) -> str:
    """A value in this form, with its interval where the form ends in `ci`.

    Forms: "%" (66 %), "pts" (6 points), "f" (0.66; two digits unless ".1f" says otherwise),
    "n" (1,204), each with digits (".1%"), a sign ("+.1f") and an interval ("%ci": 66 % [63, 69]);
    "" for text. A missing value is empty; an interval is left out where it is
    missing, and where its ends are the value as written, since no resample differs then.
    UserError for an unknown form, and for text where a number is wanted.
    """
    if form == "":
        return _text(value)
    if not (match := FORM.fullmatch(form)):
        raise UserError(f"no format {form!r}: use %, pts, f or n, as in %ci, .1%, +.2fci")
    if isinstance(value, str):
        raise UserError(f"format {form!r} is for numbers, and {value!r} is text; use ''")
    if value is None or math.isnan(value):
        return ""
    factor, unit = UNITS[match["unit"]]
    digits = int(match["digits"] or (2 if match["unit"] == "f" else 0))

    def number(each: float | int) -> str:
        text = f"{each * factor:{match['sign']},.{digits}f}"
        return text[1:] if float(text.replace(",", "")) == 0 and text[0] in "+-" else text

    shown = number(value) + unit
    if unit == " points" and number(value) in ("1", "-1", "+1"):
        shown = shown.removesuffix("s")
    ends = {number(value), number(low), number(high)} if match["interval"] else set()
    if len(ends) > 1 and not (math.isnan(low) or math.isnan(high)):
        shown += f" [{number(low)}, {number(high)}]"
    return shown.replace("-", "−")


def _text(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
