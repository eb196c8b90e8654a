"""The end of a page: its claims with their verdicts, and where its numbers come from."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from headbook import tables
from headbook.claims import board
from headbook.claims.verdict import Result
from headbook.paths import REPOSITORY

RESULTS = "../_static/results"
"""Where the published tables are, from a page of the book."""
SCORECARD = "../_generated/scorecard.html"
"""Where the scorecard is; the id of a claim is its anchor there."""


def foot(name: str, results: Mapping[str, Result]) -> str:
    """Two folded sections in Markdown, for the page of this name (`13_syntactic_heads`).

    `results` are the verdicts of all claims by id, as `headbook.claims.scorecard.current` gives
    them. Claims stand as on the scorecard, one in force before one that is superseded; the sources
    name command, commit, date, machine and parameters of every published table, and link it.
    """
    mine = [each for each in results.values() if each.claim.study == name]
    mine.sort(key=lambda each: each.claim.superseded is not None)
    parts = []
    if mine:
        lines = "\n".join(board.line(each, "", SCORECARD) for each in mine)
        parts.append(_fold("Claims of this page", f'<div class="board">{lines}</div>'))
    lines = "".join(f"<li>{line}</li>" for line in _sources(name))
    parts.append(_fold("Where the numbers come from", f"<ul>{lines}</ul>"))
    return "\n".join(parts)


def _fold(title: str, html: str) -> str:
    return f":::{{dropdown}} {title}\n```{{raw}} html\n{html}\n```\n:::\n"


def _sources(name: str) -> Iterator[str]:
    number = name.partition("_")[0]
    yield (
        f"<code>headbook run {number}</code> executes this page, "
        f"<code>notebooks/{name}.ipynb</code>, and compares what it measures with these tables; "
        f"<code>headbook publish {number}</code> writes them."
    )
    for table, entry in tables.entries(number).items():
        link = f'<a download href="{RESULTS}/{number}/{table}.csv">{table}.csv</a>'
        made = "; ".join(dict.fromkeys(map(_made, entry.get("made", ()))))
        yield f"{link}, {entry['rows']:,} rows: {made or 'no record'}."


def _made(run: Mapping[str, Any]) -> str:
    hardware = run.get("hardware", {})
    machine = hardware.get("gpu") or hardware.get("processor", "processor unknown")
    given = escape(json.dumps(run.get("parameters", {}), ensure_ascii=False))
    changed = run.get("changed") or []
    commit, uncommitted, _ = str(run.get("commit", "unknown")).partition("+")
    there = (escape(x) + " (since removed)" * (not (REPOSITORY / x).exists()) for x in changed)
    named = ", ".join(there) or "files that were not recorded"
    beside = f" with changes to {named}" if changed or uncommitted else ""
    date = str(run.get("date", ""))[:10]
    return f"commit {commit}{beside}, {date}, {machine}, <code>{given}</code>"
