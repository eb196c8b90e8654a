"""The front page: how many claims there are of each verdict, and the strip that shows them.

In `intro.md`, `{{ claims }}`, `{{ absent }}` and the like count the works' claims, and
`{{ strip }}` shows them; all other numbers of its prose are references, as on every page.
"""

from collections import Counter
from collections.abc import Mapping

import yaml

from headbook.claims import board
from headbook.claims.verdict import Result

SCORECARD = "_generated/scorecard.html"


def filled(text: str, results: Mapping[str, Result]) -> str:
    """The page with its substitutions as front matter."""
    shown = board.works_claims(results.values())
    marks = Counter(board.mark_of(each) for each in shown)
    values = {mark.replace(" ", "_"): str(marks[mark]) for mark in board.SHAPES}
    values |= {
        "claims": str(len(shown)),
        "own": str(len(results) - len(shown)),
        "works": str(len({each.claim.work for each in shown})),
        "strip": f"```{{raw}} html\n{board.strip(results.values(), SCORECARD)}\n```",
    }
    given = {"myst": {"substitutions": values}}
    return f"---\n{yaml.safe_dump(given, allow_unicode=True, width=10_000)}---\n{text}"
