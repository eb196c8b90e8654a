"""The scorecard as MyST markdown. No number here is typed: all come from ledger and tables."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from headbook.claims.bootstrap import over_seeds
from headbook.claims.ledger import Claim, Ledger, PaperValue
from headbook.claims.rule import Outcome
from headbook.claims.verdict import Result, Verdict

SYMBOLS = {
    Verdict.REPLICATED: "✔",
    Verdict.PARTLY: "◐",
    Verdict.DIFFERS: "✘",
    Verdict.NOT_YET_RUN: "○",
}
MARKS = {
    Outcome.PASS: "✔",
    Outcome.FAIL: "✘",
    Outcome.NO_NUMBER: "? no number, so not passed:",
    Outcome.OUTSIDE: "– not counted (other domain):",
}
BREAK = "<br>"

LEGEND = """\
## How a verdict is reached

Each claim has a rule, written down before any run, that a trained model's number passes or fails.

| verdict | meaning |
|---|---|
| ✔ replicated | every model that counts passes the rule |
| ◐ partly | some pass and some do not |
| ✘ differs | none passes |
| ○ not yet run | no model that counts has been measured at this profile |

A profile is a size of experiment, from `smoke` to `full`; those with published results have a
column, the largest first, and what one of them says does not count at another.

In a cell of measured numbers every line is one trained model: ✔ or ✘ for its rule, then the number
with its 95 % interval in brackets, and the baseline where there is one. A number that could not be
taken (a model without any positional head has no least confident one) does not pass. A model
trained on sentences of another kind than the claim speaks of is shown and not counted.
"""


def page(ledger: Ledger, results: Sequence[Result], pages: str) -> str:
    """The whole page: counts, one table a work with a column a profile, legend, measures.

    `results` hold every claim at the same profiles, the columns, in their order.
    """
    profiles = list(dict.fromkeys(result.profile for result in results))
    blocks = ["# Scorecard\n", *(_counts(results, profile) for profile in profiles)]
    for work, title in ledger.works.items():
        own = [result for result in results if result.claim.work == work]
        blocks += [f"## {title}\n", _table(own, profiles, pages)]
    blocks += [LEGEND, "## What each claim measures\n", *map(_measure, ledger.claims)]
    return "\n".join(blocks)


def comparison(results: Sequence[Result]) -> str:
    """One study's claims: the work's number, then what each profile's run gives. No links."""
    head = "| claim | the work's number | run | verdict | ours |\n|---|---|---|---|---|"
    return "\n".join([head, *map(_compared, results)]) + "\n"


def _compared(result: Result) -> str:
    claim = result.claim
    cells = (
        f"{_safe(claim.claim)}{BREAK}*{_safe(claim.where)}*",
        BREAK.join(_printed(value, claim.unit) for value in claim.paper) or "none given",
        result.profile,
        f"{SYMBOLS[result.verdict]} {result.verdict}",
        _measured(result),
    )
    return f"| {' | '.join(cells)} |"


def _counts(results: Sequence[Result], profile: str) -> str:
    found = Counter(result.verdict for result in results if result.profile == profile)
    parts = [f"**{found[name]}** {SYMBOLS[name]} {name}" for name in Verdict]
    return f"{found.total()} claims at profile {profile}: {' · '.join(parts)}.\n"


def _table(results: Sequence[Result], profiles: Sequence[str], pages: str) -> str:
    """One line a claim, in the order of the ledger."""
    titles = [*(f"profile {name}" for name in profiles), "claim", "the work's number", "ours"]
    head = f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"
    claims = {result.claim.id: [] for result in results}
    for result in results:
        claims[result.claim.id].append(result)
    return "\n".join([head, *(_line(each, pages) for each in claims.values())]) + "\n"


def _line(results: Sequence[Result], pages: str) -> str:
    """One claim with its verdicts at all profiles."""
    claim = results[0].claim
    cells = (
        *(f"{SYMBOLS[result.verdict]} {result.verdict}" for result in results),
        f"{_safe(claim.claim)}{BREAK}*{_safe(claim.where)}*{BREAK}Counts when {_rule(claim)}.",
        BREAK.join(_printed(value, claim.unit) for value in claim.paper) or "none given",
        BREAK.join([*map(_at_profile, results), _link(claim, pages)]),
    )
    return f"| {' | '.join(cells)} |"


def _at_profile(result: Result) -> str:
    return f"*Profile {result.profile}:*{BREAK}{_measured(result)}"


def _link(claim: Claim, pages: str) -> str:
    return f"{{doc}}`{claim.study.replace('_', ' ')} <{pages}/{claim.study}>`"


def _printed(value: PaperValue, unit: str) -> str:
    numbers = ", ".join(f"{number:g}" for number in value.values)
    against = "" if value.baseline is None else f" (baseline {value.baseline:g})"
    return f"{_safe(value.of)}: {numbers}{against}"


def _measured(result: Result) -> str:
    if result.rows.empty:
        return "no run yet"
    lines = [_model(row, result.claim.unit) for row in result.rows.to_dict("records")]
    return BREAK.join([*lines, *_seeds(result)])


def _model(row: dict, unit: str) -> str:
    name = f"{MARKS[Outcome(row['outcome'])]} {_safe(row['model'])}"
    if row["corpus"] not in row["model"]:
        name += f", {_safe(row['corpus'])}"
    if row["seed"] and not row["model"].endswith(f" s{row['seed']}"):
        name += f", seed {_safe(row['seed'])}"
    baseline = "" if pd.isna(row["baseline"]) else f", baseline {_number(row['baseline'], unit)}"
    return f"{name}: {_with_interval(row['value'], row['low'], row['high'], unit)}{baseline}"


def _with_interval(value: float, low: float, high: float, unit: str) -> str:
    if pd.isna(low) or pd.isna(high):
        return _number(value, unit)
    return f"{_number(value, unit)} [{_number(low, unit)}, {_number(high, unit)}]"


def _seeds(result: Result) -> Iterator[str]:
    """One line for each corpus whose models differ in their seed: mean, spread and interval."""
    counted = result.rows[result.rows["outcome"] != Outcome.OUTSIDE].dropna(subset=["value"])
    unit = result.claim.unit
    for (corpus, _), rows in counted.groupby(["corpus", "target"], sort=False):
        if len(rows) < 2 or rows["seed"].duplicated().any():
            continue
        summary = over_seeds(rows["value"].tolist())
        yield (
            f"{_safe(corpus)}, mean of {summary.count} seeds:"
            f" {_with_interval(summary.mean, summary.low, summary.high, unit)},"
            f" standard deviation {_number(summary.spread, unit)}"
        )


def _number(value: float, unit: str) -> str:
    if pd.isna(value):
        return "none"
    return f"{value:.3f}" if unit == "share" else f"{value:.3g}"


def _rule(claim: Claim) -> str:
    return _safe(claim.rule.in_words())


def _measure(claim: Claim) -> str:
    because = f"*Because:* {claim.because}"
    return f"**{claim.id}**: {claim.measure} *Counts when* {_rule(claim)}. {because}\n"


def _safe(text: str) -> str:
    """Text that keeps to one cell: no line breaks, no bare pipes."""
    return " ".join(str(text).split()).replace("|", "\\|")
