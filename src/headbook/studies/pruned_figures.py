"""A span of values in words."""

import pandas as pd


def span(values: pd.Series, form: str = "+.1f") -> str:
    """Smallest to largest of what is known, or that nothing is."""
    known = values.dropna()
    if known.empty:
        return "no number"
    ends = [f"{end:{form}}" for end in (known.min(), known.max())]
    return " to ".join(dict.fromkeys(ends))
