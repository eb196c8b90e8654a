"""The scorecard page: one figure, then one line per claim with its models folded.

HTML without a request to anywhere. Marks differ in shape and in colours that colour-blind readers
can tell apart, those of the book's style sheet. Without a script only the filters are missing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from headbook.claims.ledger import Claim, Ledger
from headbook.claims.render import models, named, printed, ruled, summary
from headbook.claims.verdict import Result, Verdict

OWN = "headbook"
UNCOUNTED = "not counted"
ORDER = (
    Verdict.REPLICATED, Verdict.MIXED, Verdict.CONTRADICTED, Verdict.INCONCLUSIVE, Verdict.ABSENT,
    Verdict.NOT_RUN,
)  # fmt: skip
MEANINGS = {
    Verdict.REPLICATED: "of the models judged more than half pass the claim's rule and none fails",
    Verdict.MIXED: "some pass and some fail, or those that do either are half or fewer, beside "
    "undecided ones",
    Verdict.CONTRADICTED: "of the models judged more than half fail the rule and none passes",
    Verdict.INCONCLUSIVE: "none passes or fails: intervals include the threshold, are too wide for "
    "the effect, or the rule tells nothing, as untrained models pass it",
    Verdict.ABSENT: "every model that counts lacks what the claim is about",
    Verdict.NOT_RUN: "no model that counts has been measured: none at all, or none that is shown "
    "to have converged",
    UNCOUNTED: "true by construction, about a text only, passed by untrained models too, or "
    "superseded by a later claim",
}
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
    Verdict.NOT_RUN: '<circle cx="8" cy="8" r="2"/>',
    UNCOUNTED: '<path d="M3 8H13" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>',
}

STYLE = """\
.board{font-size:.9rem}
.board svg{width:16px;height:16px;fill:currentColor;vertical-align:-3px;flex:none}
.board summary>svg{margin-top:.22rem}
.board .row{display:grid;grid-template-columns:minmax(12rem,20rem) 1fr;gap:0 .8rem;padding:.25rem 0;
margin:0;border-top:1px solid rgba(128,128,128,.25)}
.board .row>*{padding:0;width:auto}
.board .row>span:first-child{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.board .dots a{display:inline-block;padding:0 2px;line-height:22px}
.board table{width:auto;margin:.5rem 0;font-size:.85rem}
.board td,.board th{padding:1px .6rem 1px 0;text-align:left;vertical-align:top}
.board td:first-child{white-space:nowrap}
.board .legend span{display:inline-block;margin-right:1rem}
.board .legend{margin:.2rem 0 .5rem}
.board .filters label{margin-right:1rem}
.board select{max-width:11rem}
.board h3{font-size:.95rem;margin:.9rem 0 .2rem}
.board details.claim{margin:0;padding:0;border:0;box-shadow:none;background:none;
scroll-margin-top:5rem}
.board details.claim>summary{display:flex;gap:.4rem;line-height:1.45rem;cursor:pointer;
list-style:none;padding:0}
.board details.claim>summary span:nth-of-type(1){overflow:hidden;text-overflow:ellipsis;
white-space:nowrap;flex:1}
.board details.claim[open]>summary span:nth-of-type(1){white-space:normal}
.board details.claim:target>summary{font-weight:600}
.board details.claim .inside{margin:.1rem 0 .7rem 1.5rem;font-size:.85rem}
.board details.claim .inside p{margin:.2rem 0}
@media(max-width:700px){.board .row{grid-template-columns:1fr}.board .verdict{display:none}
.board details.claim[open] .verdict{display:inline}}
"""

SCRIPT = """\
(function(){var board=document.querySelector('.board');if(!board)return;
var bar=board.querySelector('.filters');bar.hidden=false;
var work=bar.querySelector('[name=work]'),mark=bar.querySelector('[name=verdict]');
function show(){board.querySelectorAll('section').forEach(function(part){var any=false;
part.querySelectorAll('details.claim').forEach(function(line){
var of=line.dataset,seen=(!work.value||of.work===work.value)&&(!mark.value||of.mark===mark.value);
line.hidden=!seen;any=any||seen});part.hidden=!any})}
bar.addEventListener('change',show);
function go(){var line=document.getElementById(location.hash.slice(1));
if(line&&line.matches('.board details.claim')){if(line.hidden){work.value=mark.value='';show()}
line.open=true;line.scrollIntoView()}}
addEventListener('hashchange',go);go()})();
"""


def page(ledger: Ledger, results: Sequence[Result], pages: str) -> str:
    """The whole page in MyST Markdown; `pages` is where the pages are, from this one.

    `results` hold every claim once, in the order of the ledger.
    """
    works = [work for work in ledger.works if work != OWN]
    own = [work for work in ledger.works if work == OWN]
    parts = [
        f"<style>{STYLE}</style>",
        '<div class="board"><p>Each mark is a claim, and a link to its line.</p>',
        *_figure(ledger, results, works, own),
        _filters(ledger),
        *(
            part
            for work in (*works, *own)
            for part in _section(
                ledger.works[work], [each for each in results if each.claim.work == work], pages
            )
        ),
        "</div>",
        f"<script>{SCRIPT}</script>",
    ]  # fmt: skip
    html = "\n".join(parts)
    return f"# Scorecard\n\n```{{raw}} html\n{html}\n```\n"


def strip(results: Iterable[Result], scorecard: str) -> str:
    """The works' claims as HTML: a row per verdict, each mark a link to its line on `scorecard`."""
    shown = works_claims(results)
    found = Counter(map(mark_of, shown))
    rows = (
        f'<div class="row"><span>{found[mark]} {mark}</span>'
        f'<span class="dots">{_dots((r for r in shown if mark_of(r) == mark), scorecard)}</span>'
        "</div>"
        for mark in MEANINGS
        if found[mark]
    )
    return "\n".join([f"<style>{STYLE}</style>", '<div class="board strip">', *rows, "</div>"])


def works_claims(results: Iterable[Result]) -> list[Result]:
    """Every claim of a work other than this book."""
    return [result for result in results if result.claim.work != OWN]


HOW = """\
A model passes a claim's rule where it holds throughout the interval, fails it where it holds
nowhere, and is undecided between. A number without an interval, as of one training with one seed,
stands for itself, except in an ordering. A model is not judged where a gate is closed: it has not
converged (asked of every finding but those about training itself), has no head of the kind in
question, passes untrained as well, or has an interval too wide for the effect. The unit is the
model: intervals are over seeds where there are three, else within one model, and settings of one
model are no replicates (p-values adjusted after Holm)."""


def mark_of(result: Result) -> str:
    """The verdict, or that the claim is not counted."""
    return UNCOUNTED if result.uncounted else result.verdict.value


def _svg(mark: str) -> str:
    shape = SHAPES[Verdict(mark) if mark != UNCOUNTED else mark]
    return f'<svg class="{_slug(mark)}" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>'


def _slug(mark: str) -> str:
    return mark.replace(" ", "-")


def _figure(
    ledger: Ledger, results: Iterable[Result], works: Sequence[str], own: Sequence[str]
) -> Iterator[str]:
    results = list(results)
    for title, names in (("The works' claims", works), ("This book's own questions", own)):
        group = [result for result in results if result.claim.work in names]
        yield f"<h3>{title}</h3>{_counts(group)}"
        for work in names:
            mine = [result for result in group if result.claim.work == work]
            yield _row("" if work == OWN else ledger.works[work], mine)
    yield _meanings()


def _row(title: str, results: Sequence[Result]) -> str:
    """A work and its dots, those of one verdict side by side."""
    order = [*ORDER, UNCOUNTED]
    dots = _dots(sorted(results, key=lambda each: order.index(mark_of(each))))
    label = f'<span title="{escape(title)}">{escape(title)}</span>'
    return f'<div class="row">{label}<span class="dots">{dots}</span></div>'


def _dots(results: Iterable[Result], scorecard: str = "") -> str:
    """One mark per claim, a link to its line."""
    return "".join(
        f'<a href="{scorecard}#{result.claim.id}" title="{_title(result)}" '
        f'aria-label="{_title(result)}">{_svg(mark_of(result))}</a>'
        for result in results
    )


def _title(result: Result) -> str:
    return _text(f"{_words(result)}: {result.claim.claim}")


def _words(result: Result) -> str:
    return result.uncounted or result.verdict.value


def _counts(results: Sequence[Result]) -> str:
    """The legend: each mark with its number of claims."""
    found = Counter(map(mark_of, results))
    parts = (f"<span>{_svg(mark)} {found[mark]} {mark}</span>" for mark in MEANINGS if found[mark])
    return f'<p class="legend">{" ".join(parts)}</p>'


def _meanings() -> str:
    lines = "".join(f"<tr><td>{_svg(mark)} {mark}</td><td>{meaning}</td></tr>"
                    for mark, meaning in MEANINGS.items())  # fmt: skip
    return (
        f"<details><summary>How a verdict is reached</summary><p>{HOW}</p>"
        f"<table>{lines}</table></details>"
    )


def _filters(ledger: Ledger) -> str:
    """Hidden until the script shows them."""
    works = "".join(f'<option value="{key}">{escape(text)}</option>'
                    for key, text in ledger.works.items())  # fmt: skip
    marks = "".join(f"<option>{mark}</option>" for mark in MEANINGS)
    return (
        f'<p class="filters" hidden><label>Work <select name="work"><option value="">all</option>'
        f'{works}</select></label><label>Verdict <select name="verdict"><option value="">all'
        f"</option>{marks}</select></label></p>"
    )


def _section(title: str, results: Sequence[Result], pages: str) -> Iterator[str]:
    yield f"<section><h3>{escape(title)}</h3>"
    yield from (_line(each, pages) for each in results)
    yield "</section>"


def _line(shown: Result, pages: str) -> str:
    """One claim: mark, text and verdict; inside, the work's numbers, every model, rule, history."""
    claim, mark = shown.claim, mark_of(shown)
    inside = [
        f'{claim.where}. <a href="{pages}/{claim.study}.html">{claim.study.replace("_", " ")}</a> '
        f'· <a href="#{claim.id}">link</a>',
        *(f"The paper: {_text(printed(value))}" for value in claim.paper),
        _judged(shown),
        *map(_text, ruled(claim)),
        *_successor(claim),
    ]
    text = "".join(f"<p>{line}</p>" for line in inside)
    return (
        f'<details class="claim" id="{claim.id}" data-work="{claim.work}" data-mark="{mark}">'
        f"<summary>{_svg(mark)}<span>{_text(claim.claim)}</span>"
        f'<span class="verdict {_slug(mark)}">{_words(shown)}</span></summary>'
        f'<div class="inside">{text}</div></details>'
    )


def _judged(result: Result) -> str:
    if not result.models:
        return "Not run."
    said = f"Here: {named(result)}; {summary(result)}."
    return "<br>".join(map(_text, [said, *models(result)]))


def _successor(claim: Claim) -> Iterator[str]:
    if claim.superseded:
        yield f'Superseded by <a href="#{claim.superseded}">another claim</a>.'


def _text(text: str) -> str:
    """Escaped and on one line, so that none can end the block of HTML."""
    return escape(" ".join(text.split()))
