"""The front page: how many claims there are of each verdict, and the strip that shows them.

In `intro.md`, `{{ claims }}`, `{{ absent }}` and the like count the works' claims, and
`{{ strip }}` shows them; all other numbers of its prose are references, as on every page.
"""

import re
from collections import Counter
from functools import cache

import yaml

from headbook.types import UserError

PLACE = re.compile(r"{{ (\w+) }}")
SCORECARD = "_generated/scorecard.html"


def filled(text: str) -> str:
    """The page with its substitutions as front matter; a page without any stays as it is.

    UserError for a name that stands for nothing.
    """
    wanted = set(PLACE.findall(text))
    if not wanted:
        return text
    values = _counts()
    if unknown := sorted(wanted - values.keys()):
        raise UserError(f"intro.md names {unknown[0]}: it may name {', '.join(sorted(values))}")
    given = {"myst": {"substitutions": {name: values[name] for name in sorted(wanted)}}}
    return f"---\n{yaml.safe_dump(given, allow_unicode=True, width=10_000)}---\n{text}"


@cache
def _counts() -> dict[str, str]:
    from headbook.claims import board, scorecard

    results = list(scorecard.current().values())
    shown = board.works_claims(results)
    marks = Counter(board.mark_of(each) for each in shown)
    named = {mark.replace(" ", "_"): str(marks[mark]) for mark in board.MEANINGS}
    strip = board.strip(results, SCORECARD)
    return {
        **named,
        "claims": str(len(shown)),
        "own": str(len(results) - len(shown)),
        "works": str(len({each.claim.work for each in shown})),
        "strip": f"```{{raw}} html\n{strip}\n```",
    }
