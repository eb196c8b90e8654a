"""Claims and their verdicts as HTML: the scorecard page, the front page's strip, lines of claims.

No number here is typed: all come from ledger and tables. Marks differ in shape and in colours that
colour-blind readers can tell apart, those of the book's style sheet. A script opens the line that
an address names.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape

import pandas as pd

from headbook.claims.ledger import Claim, Rows, load
from headbook.claims.rule import JUDGED, Outcome
from headbook.claims.verdict import Judged, Result, Verdict

OWN = "headbook"
UNCOUNTED = "not counted"
SHAPES = {
    Verdict.REPLICATED: '<circle cx="8" cy="8" r="6"/>',
    Verdict.MIXED: '<circle cx="8" cy="8" r="5.2" fill="none" stroke="currentColor" '
    'stroke-width="1.6"/><path d="M8 2.8a5.2 5.2 0 0 0 0 10.4z"/>',
    Verdict.CONTRADICTED: '<path d="M3 3L13 13M13 3L3 13" stroke="currentColor" '
    'stroke-width="3" stroke-linecap="round"/>',
    Verdict.INCONCLUSIVE: '<path d="M8 2.2L14 13.2H2z" fill="none" stroke="currentColor" '
    'stroke-width="1.6" stroke-linejoin="round"/>',
    Verdict.ABSENT: '<rect x="3" y="3" width="10" height="10" fill="none" stroke="currentColor" '
    'stroke-width="1.6"/>',
    Verdict.NOT_JUDGED: '<circle cx="8" cy="8" r="2"/>',
    UNCOUNTED: '<path d="M3 8H13" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>',
}
"""Every mark in the order in which they are shown."""
SCRIPT = """\
(function(){function go(){var line=document.getElementById(location.hash.slice(1));
if(line&&line.matches('.board details.claim')){line.open=true;line.scrollIntoView()}}
addEventListener('hashchange',go);go()})();
"""
UNITS = {
    "share": "share (0.1 is ten per cent, or ten points)",
    "count": "count",
    "layer": "layer",
    "ratio": "ratio",
    "bleu": "BLEU points",
    "correlation": "correlation",
    "log": "logarithm (natural, if no other base is named), or nats",
}


def mark_of(result: Result) -> str:
    """The verdict, or that the claim is not counted."""
    return UNCOUNTED if result.uncounted else result.verdict.value


def works_claims(results: Iterable[Result]) -> list[Result]:
    """Every claim of a work other than this book."""
    return [result for result in results if result.claim.work != OWN]


def page(results: Mapping[str, Result], pages: str) -> str:
    """The scorecard in MyST Markdown: a figure with a mark per claim, then a line for each.

    `pages` is where the pages are, from this one.
    """
    parts = [
        '<div class="board whole"><p>Each mark is a claim, and a link to its line. Behind its '
        "verdict stands how many of the models judged pass (contradicted: fail). "
        '<a href="../how_to_read.html#verdicts">How a verdict is reached</a></p>'
    ]
    titles = load().works
    of = {work: [each for each in results.values() if each.claim.work == work] for work in titles}
    works = [work for work in titles if work != OWN]
    for title, group in (("The works’ claims", works), ("This book’s own questions", [OWN])):
        every = [each for work in group for each in of[work]]
        parts.append(f"<h3>{title}</h3>{_legend(every)}")
        parts += [_row("" if work == OWN else titles[work], of[work]) for work in group]
    for work in (*works, OWN):
        lines = "\n".join(line(each, f"{pages}/{each.claim.study}.html") for each in of[work])
        parts.append(f"<section><h3>{escape(titles[work])}</h3>\n{lines}\n</section>")
    html = "\n".join([*parts, "</div>", f"<script>{SCRIPT}</script>"])
    return f"# Scorecard\n\n```{{raw}} html\n{html}\n```\n"


def strip(results: Iterable[Result], scorecard: str) -> str:
    """The works' claims as HTML: a row per verdict, each mark a link to its line on `scorecard`."""
    found = works_claims(results)
    marks = {mark: [each for each in found if mark_of(each) == mark] for mark in SHAPES}
    rows = [_row(f"{len(own)} {mark}", own, scorecard) for mark, own in marks.items() if own]
    return "\n".join(['<div class="board strip">', *rows, "</div>"])


def line(shown: Result, page: str, scorecard: str = "") -> str:
    """One claim: mark, text and verdict; inside, the work's numbers, every model, rule, history.

    `page` is its page, left out where that is empty; `scorecard` has a link to the claim's line.
    """
    claim, mark = shown.claim, mark_of(shown)
    of = f'<a href="{page}">{claim.study.replace("_", " ")}</a> · ' if page else ""
    inside = [
        f'{escape(claim.where)}. {of}<a href="{scorecard}#{claim.id}">link</a>',
        *map(_text, _printed(claim)),
        "<br>".join(map(_text, _judged(shown))),
        *map(_text, _ruled(claim)),
    ]
    if claim.superseded:
        link = f'<a href="{scorecard}#{claim.superseded}">another claim</a>'
        inside.append(f"Superseded by {link}.")
    text = "".join(f"<p>{each}</p>" for each in inside)
    own = "" if scorecard else f' id="{claim.id}"'
    return (
        f'<details class="claim"{own}>'
        f"<summary>{_svg(mark)}<span>{_text(claim.claim)}</span>"
        f'<span class="verdict {_slug(mark)}">{_words(shown)}{_count(shown)}</span></summary>'
        f'<div class="inside">{text}</div></details>'
    )


def _row(title: str, results: Iterable[Result], scorecard: str = "") -> str:
    """A title and one mark per claim, those of one verdict side by side."""
    dots = "".join(
        f'<a href="{scorecard}#{result.claim.id}" title="{_title(result)}" '
        f'aria-label="{_title(result)}">{_svg(mark_of(result))}</a>'
        for result in sorted(results, key=lambda each: [*SHAPES].index(mark_of(each)))
    )
    label = f'<span title="{escape(title)}">{escape(title)}</span>'
    return f'<div class="row">{label}<span class="dots">{dots}</span></div>'


def _legend(results: Iterable[Result]) -> str:
    """Each mark with its number of claims."""
    found = Counter(map(mark_of, results))
    parts = (f"<span>{_svg(mark)} {found[mark]} {mark}</span>" for mark in SHAPES if found[mark])
    return f'<p class="legend">{" ".join(parts)}</p>'


def _svg(mark: str) -> str:
    return f'<svg class="{_slug(mark)}" viewBox="0 0 16 16" aria-hidden="true">{SHAPES[mark]}</svg>'


def _slug(mark: str) -> str:
    return mark.replace(" ", "-")


def _title(result: Result) -> str:
    return _text(f"{_words(result)}: {result.claim.claim}")


def _words(result: Result) -> str:
    return result.uncounted or result.verdict.value


def _count(result: Result) -> str:
    """How many of the models judged pass; of a contradicted claim, how many fail."""
    found = Counter(model.outcome for model in result.models)
    judged = sum(found[each] for each in JUDGED)
    if result.uncounted or not judged:
        return ""
    said = Outcome.FAIL if result.verdict is Verdict.CONTRADICTED else Outcome.PASS
    of = " settings" if result.claim.rows is Rows.SETTINGS else ""
    return f" · {found[said]} of {judged}{of}"


def _printed(claim: Claim) -> Iterator[str]:
    """Each number of the work, with what it belongs to and its baseline."""
    for each in claim.paper:
        numbers = ", ".join(f"{number:g}" for number in each.values)
        against = "" if each.baseline is None else f" (baseline {each.baseline:g})"
        yield f"The paper: {each.of}: {numbers}{against}"


def _ruled(claim: Claim) -> Iterator[str]:
    """One line each: measure, unit, rule with its reason, gates, former forms."""
    yield f"Measure: {claim.measure}"
    yield f"Unit: {UNITS[claim.unit]}. Counts when {claim.rule.in_words()}. {claim.because}"
    if claim.gates:
        yield f"Gates: {', '.join(sorted(claim.gates))}."
    if claim.settled:
        yield f"Converged: {claim.settled}"
    if claim.unconverged:
        yield f"Models that have not converged count: {claim.unconverged}"
    for change in claim.history:
        yield f"Until {change.until}: {change.was} Changed because: {change.because}"


def _judged(result: Result) -> Iterator[str]:
    """The verdict with the number of models of each outcome, then one line per model."""
    if not result.models or result.claim.unmeasured:
        yield f"Not judged: {result.claim.unmeasured or 'no model was measured.'}"
    if not result.models:
        return
    why = f" ({result.uncounted}, not counted)" if result.uncounted else ""
    found = Counter(model.outcome for model in result.models)
    counts = ", ".join(f"{found[outcome]} {outcome}" for outcome in Outcome if found[outcome])
    same = result.claim.rows is Rows.SETTINGS and len(result.models) > 1
    aside = ": settings of one model, no replicates" if same else ""
    yield f"Here: {result.verdict}{why}; {counts}{aside}."
    for model in result.models:
        yield f"{_name(model)}: {model.outcome}; {_numbers(model, result.claim)}{_gates(model)}"
        if model.seeds > 1:
            own = ", ".join(_number(row["value"], result.claim.unit) for row in model.rows)
            yield f"– its seeds: {own}"


def _name(model: Judged) -> str:
    name = model.model
    if model.corpus not in name:
        name = f"{name}, {model.corpus}" if name else model.corpus
    seed = model.rows[0]["seed"]
    if model.seeds == 1 and seed and not model.model.endswith(f" s{seed}"):
        name += f", seed {seed}"
    return name.strip() or "no model"


def _numbers(model: Judged, claim: Claim) -> str:
    value, low, high, base = (model.row[name] for name in ("value", "low", "high", "baseline"))
    text = _number(value, claim.unit)
    if pd.notna(low) and pd.notna(high):
        seeds = model.seeds if model.seeds > 1 else claim.seeds
        over = "within one model" if seeds is None else f"over {seeds} seeds"
        text += f" [{_number(low, claim.unit)}, {_number(high, claim.unit)}] {over}"
    elif pd.notna(value):
        text += ", no interval"
    return text if pd.isna(base) else f"{text}, baseline {_number(base, claim.unit)}"


def _number(value: float, unit: str) -> str:
    """A number to three digits; a share to three decimals."""
    if pd.isna(value):
        return "no number"
    shown = f"{value:.3f}" if unit == "share" else f"{value:.3g}"
    return shown[1:] if shown.startswith("-") and not float(shown) else shown


def _gates(model: Judged) -> str:
    shut = "; ".join(f"{gate}, {why}" if why else gate for gate, why in model.closed.items())
    return f" (gate closed: {shut})" if shut else ""


def _text(text: str) -> str:
    """Escaped and on one line, so that none can end the block of HTML."""
    return escape(" ".join(text.split()).replace("'", "’"))
