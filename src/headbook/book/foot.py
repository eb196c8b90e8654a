"""The end of a page: its claims with their verdicts, and where its numbers come from."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

import pandas as pd

from headbook import tables
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import Claim
from headbook.claims.render import SYMBOLS, ruled
from headbook.claims.rule import Outcome
from headbook.claims.verdict import Judged, Result

RESULTS = "../_static/results"
"""Where the published tables are, from a page of the book."""
SCORECARD = "../_generated/scorecard.html"
"""Where the scorecard is; the id of a claim is its anchor there."""


def foot(name: str, results: Mapping[str, Any]) -> str:
    """Two folded sections in Markdown, for the page of this name (`13_syntactic_heads`).

    `results` are the verdicts of all claims by id, as `headbook.claims.scorecard.current` gives
    them. The table of claims says how many models pass, fail or are undecided; the sources name
    command, commit, date, machine and parameters of every published table, and link it.
    """
    mine = [each for each in results.values() if each.claim.study == name]
    parts = []
    if mine:
        mine.sort(key=lambda each: each.claim.superseded is not None)
        html = pd.DataFrame(map(_row, mine)).to_html(
            index=False, border=0, classes="table headbook-table"
        )
        meant = "".join(_definition(each.claim) for each in mine)
        parts.append(
            _fold(
                "Claims of this page",
                f'<div class="headbook-scroll" tabindex="0">{html}</div>'
                f'<div class="headbook-claims"><p>What each claim means:</p>{meant}</div>',
            )
        )
    lines = "".join(f"<li>{line}</li>" for line in _sources(name))
    parts.append(_fold("Where the numbers come from", f"<ul>{lines}</ul>"))
    return "\n".join(parts)


def _fold(title: str, html: str) -> str:
    return f":::{{dropdown}} {title}\n```{{raw}} html\n{html}\n```\n:::\n"


def _row(found: Result) -> dict[str, str]:
    """One claim: its rule, and outcomes of released models and of those trained here apart."""
    verdict = f"{SYMBOLS[found.verdict]} {found.verdict}"
    return {
        "claim": f"{found.claim.claim} ({found.claim.where})",
        "counts when": found.claim.rule.in_words(),
        "released": _outcomes(each for each in found.models if each.corpus == RELEASED),
        "trained here": _outcomes(each for each in found.models if each.corpus != RELEASED),
        "verdict": f"superseded ({verdict})" if found.claim.superseded else verdict,
    }


def _definition(claim: Claim) -> str:
    """One claim, folded: measure, unit, rule, gates, former forms."""
    mark = "Superseded: " if claim.superseded else ""
    lines = [*map(_text, ruled(claim)), *_links(claim)]
    inside = "".join(f"<p>{line}</p>" for line in lines)
    return f"<details><summary>{mark}{_text(claim.claim)}</summary>{inside}</details>"


def _links(claim: Claim) -> Iterator[str]:
    link = f'<a href="{SCORECARD}#{escape(claim.id)}">On the scorecard</a>'
    if claim.superseded:
        link += f', and <a href="{SCORECARD}#{escape(claim.superseded)}">the claim in its place</a>'
    yield link


def _text(text: str) -> str:
    """Escaped, on one line."""
    return escape(" ".join(text.split()))


def _outcomes(models: Iterable[Judged]) -> str:
    """`1 passes, 2 undecided`."""
    found = Counter(each.outcome for each in models)
    return ", ".join(f"{found[each]} {each}" for each in Outcome if found[each]) or "–"


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
    named = ", ".join(map(escape, changed)) or "files that were not recorded"
    beside = f" with changes to {named}" if changed or uncommitted else ""
    date = str(run.get("date", ""))[:10]
    return f"commit {commit}{beside}, {date}, {machine}, <code>{given}</code>"
