"""Wording of the page: names of heads, percentages, roles in words, tables."""

import math
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import pandas as pd

from headbook.looking.roles import SYNTACTIC
from headbook.text.trees import Direction

ENDS = {
    "nsubj": ("verb", "subject"),
    "dobj": ("verb", "object"),
    "amod": ("noun", "adjective"),
    "advmod": ("verb", "adverb"),
}
"""Head and dependent of each relation, as the papers call them."""
SHARES = {
    "confidence": "confidence",
    "previous": "previous token",
    "next": "next token",
    "own": "own token",
    "rare": "rare words",
    "special": "special tokens",
}
"""Columns between 0 and 1 and how the page calls them."""
NUMBERS = {
    "entropy": "entropy (nats)",
    "importance_gradient": "importance, gradient",
    "importance_ablation": "importance, removed",
}


def name_of(layer: SupportsIndex, head: SupportsIndex) -> str:
    return f"L{layer}H{head}"


def percent(value: float) -> str:
    """A share as a whole percentage; a dash where nothing counted."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.0f}\u00a0%"


def interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"[{100 * low:.0f}, {100 * high:.0f}]"


def said(detail: str) -> str:
    """A candidate role's detail in words: "verb → object" where the query is the verb."""
    relation, _, direction = detail.partition("_")
    if relation not in ENDS:
        return {"-1": "−1", "+1": "+1"}.get(detail, detail)
    ends = ENDS[relation] if direction == Direction.HEAD_TO_DEPENDENT else ENDS[relation][::-1]
    return " → ".join(ends)


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", texts: int = 1
) -> str:
    """A table whose first `texts` columns are text; cells are HTML."""
    head = "".join(
        f'<th scope="col"{_text(at, texts)}>{name}</th>' for at, name in enumerate(columns)
    )
    lines = []
    for row in rows:
        cells = "".join(f"<td{_text(at, texts)}>{each}</td>" for at, each in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    named = f'<p class="soft">{caption}</p>' if caption else ""
    body = "".join(lines)
    return (
        f'{named}<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _text(at: int, texts: int) -> str:
    return ' class="text"' if at < texts else ""


def best_candidates(every: pd.DataFrame) -> pd.DataFrame:
    """Of every role and detail the head that is best on the first half, with its score on the
    second: no gain by luck."""
    found = every.dropna(subset=["chosen"])
    rows = found.groupby(["role", "detail"], sort=False)["chosen"].idxmax()
    return found.loc[rows]


def in_words(row: object) -> str:
    return f"{row.role}: {said(row.detail)}" if row.role == SYNTACTIC else row.role


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}"


def roles_of_heads(every: pd.DataFrame) -> dict[tuple[str, int, int], str]:
    """Every head's roles in words."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for row in every[every["held"]].itertuples():
        found.setdefault((row.kind, row.layer, row.head), []).append(in_words(row))
    return {key: "; ".join(names) for key, names in found.items()}
