"""Claims and verdicts as text. No number here is typed: all come from ledger and tables."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from headbook.claims.ledger import Claim, PaperValue, Rows
from headbook.claims.rule import Outcome
from headbook.claims.verdict import Judged, Result, Verdict

SYMBOLS = {
    Verdict.REPLICATED: "●",
    Verdict.CONTRADICTED: "✕",
    Verdict.MIXED: "◐",
    Verdict.INCONCLUSIVE: "?",
    Verdict.ABSENT: "□",
    Verdict.NOT_RUN: "·",
}
UNITS = {
    "share": "share (0.1 is ten per cent, or ten points)",
    "count": "count",
    "layer": "layer",
    "ratio": "ratio",
    "bleu": "BLEU points",
    "correlation": "correlation",
    "log": "natural logarithm, or nats",
}


def named(result: Result) -> str:
    """The verdict with its symbol, and why it is not counted, if so."""
    verdict = f"{SYMBOLS[result.verdict]} {result.verdict}"
    return f"{verdict} ({result.uncounted}, not counted)" if result.uncounted else verdict


def printed(value: PaperValue) -> str:
    """A number of the work, with what it belongs to and its baseline."""
    numbers = ", ".join(f"{number:g}" for number in value.values)
    against = "" if value.baseline is None else f" (baseline {value.baseline:g})"
    return f"{value.of}: {numbers}{against}"


def summary(result: Result) -> str:
    """Numbers of models that pass, fail, and so on, and the span of their values, on one line."""
    if not result.models:
        return "no run yet"
    found = Counter(model.outcome for model in result.models)
    parts = ", ".join(f"{found[outcome]} {outcome}" for outcome in Outcome if found[outcome])
    parts += _span(result)
    if result.claim.rows is Rows.SETTINGS and len(result.models) > 1:
        return f"{parts}: settings of one model, no replicates"
    return parts


def _span(result: Result) -> str:
    """The smallest and the largest number of the models in the claim's domain."""
    values = [model.row["value"] for model in result.models if model.outcome is not Outcome.OUTSIDE]
    known = [value for value in values if pd.notna(value)]
    ends = (
        dict.fromkeys(number(end(known), result.claim.unit) for end in (min, max)) if known else ()
    )
    return f" ({' to '.join(ends)})" if ends else ""


def models(result: Result) -> Iterator[str]:
    """One line per model: outcome, number with interval and what that is over, closed gates."""
    for model in result.models:
        yield f"{_name(model)}: {model.outcome}; {_numbers(model, result.claim)}{_gates(model)}"
        if model.seeds > 1:
            own = ", ".join(number(row["value"], result.claim.unit) for row in model.rows)
            yield f"– its seeds: {own}"


def ruled(claim: Claim) -> Iterator[str]:
    """One line each: measure, unit, rule with its reason, gates, former forms."""
    yield f"Measure: {claim.measure}"
    yield f"Unit: {UNITS[claim.unit]}. Counts when {claim.rule.in_words()}. {claim.because}"
    if claim.gates:
        yield f"Gates: {', '.join(sorted(claim.gates))}."
    yield from changes(claim)


def changes(claim: Claim) -> Iterator[str]:
    """One line per former form of the claim."""
    for change in claim.history:
        yield f"Until {change.until}: {change.was} Changed because: {change.because}"


def _name(model: Judged) -> str:
    name = model.model
    if model.corpus not in name:
        name = f"{name}, {model.corpus}" if name else model.corpus
    seed = model.rows[0]["seed"]
    if model.seeds == 1 and seed and not model.model.endswith(f" s{seed}"):
        name += f", seed {seed}"
    return name.strip() or "no model"


def _numbers(model: Judged, claim: Claim) -> str:
    row = model.row
    text = number(row["value"], claim.unit)
    if pd.notna(row["low"]) and pd.notna(row["high"]):
        ends = ", ".join(number(row[end], claim.unit) for end in ("low", "high"))
        text += f" [{ends}] {_over(model, claim)}"
    elif pd.notna(row["value"]):
        text += ", no interval"
    if pd.notna(row["baseline"]):
        text += f", baseline {number(row['baseline'], claim.unit)}"
    return text


def _over(model: Judged, claim: Claim) -> str:
    """The unit of an interval."""
    seeds = model.seeds if model.seeds > 1 else claim.seeds
    return "within one model" if seeds is None else f"over {seeds} seeds"


def _gates(model: Judged) -> str:
    if not model.closed:
        return ""
    shut = "; ".join(f"{gate}, {why}" if why else gate for gate, why in model.closed.items())
    return f" (gate closed: {shut})"


def number(value: float, unit: str) -> str:
    """A number to three digits; a share to three decimals."""
    if pd.isna(value):
        return "no number"
    shown = f"{value:.3f}" if unit == "share" else f"{value:.3g}"
    return shown[1:] if shown.startswith("-") and not float(shown) else shown
