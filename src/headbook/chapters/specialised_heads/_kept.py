"""Heads that pruning keeps: controls of the same size, tests over heads, claims."""

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float
from scipy import stats

from headbook.chapters.specialised_heads._sweep import (
    FROZEN,
    GATES,
    IMPORTANCE,
    LONGER,
    RANDOM,
    UPDATES,
    WHOLE,
    Point,
)
from headbook.claims.gates import NONE, RELEASED, SMALL_BLEU
from headbook.claims.ledger import load as ledger
from headbook.statistics import (
    block_matched_share,
    holm,
    pair_share,
    percentile_interval,
    permuted_gap,
)
from headbook.training.paired import corpus_bleu, paired, resampled

PERMUTATIONS = 20_000
FEWEST = 3
"""Values of λ without which a sweep is none."""
NO_ROLE = "none"


def usual(points: Sequence[Point]) -> list[Point]:
    """Trainings with the usual number of updates."""
    return [each for each in points if each.updates == UPDATES]


# ------------------------------------------------------------------ controls


def rivals(points: Sequence[Point]) -> pd.DataFrame:
    """One row per control: BLEU of learned gates minus its own, at the same λ and seed.

    Random and important heads are as many as the gates keep; with frozen weights the gates choose
    their own number. p-values are of paired bootstrap over sentences, adjusted together (Holm).
    """
    gates = {(each.penalty, each.seed): each for each in usual(points) if each.way == GATES}
    rows = []
    for each in usual(points):
        mine = gates.get((each.penalty, each.seed))
        if each.way not in (RANDOM, IMPORTANCE, FROZEN) or mine is None or mine.kept == 0:
            continue
        test = paired(mine.made.statistics, each.made.statistics)
        rows.append({**each.labels, "kept": mine.kept, "kept_beside": each.kept,
                     "bleu": corpus_bleu(mine.made.statistics),
                     "bleu_beside": corpus_bleu(each.made.statistics), "gap": test.difference,
                     "low": test.low, "high": test.high, "p": test.p})  # fmt: skip
    return adjusted(pd.DataFrame(rows))


def adjusted(found: pd.DataFrame) -> pd.DataFrame:
    """The table of `rivals` with its p-values adjusted together."""
    return found.assign(p_holm=holm(found["p"])) if len(found) else found


def lead(points: Sequence[Point], way: str) -> Float[np.ndarray, " replicate"] | None:
    """BLEU of the gates of one seed minus that of a control, mean over the draws and then over the
    numbers of heads that have one; the first value is of all sentences, the others resampled."""
    gates = {each.penalty: each for each in usual(points) if each.way == GATES}
    gaps: dict[float, list] = {}
    for each in usual(points):
        if each.way == way and each.penalty in gates:
            mine = gates[each.penalty].made.statistics
            gaps.setdefault(each.penalty, []).append(_bleu(mine) - _bleu(each.made.statistics))
    if not gaps:
        return None
    return np.mean([np.mean(each, axis=0) for each in gaps.values()], axis=0)


def _bleu(statistics: np.ndarray) -> np.ndarray:
    return np.concatenate([[corpus_bleu(statistics)], resampled(statistics)])


# ------------------------------------------------------------------ tests over heads


def survival_tests(kept: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """Whether heads that had a role are kept more often than others, one row per test.

    `kept` has one row per training and head (`kept_heads` of _sweep.py), `before` one per head.
    Per training with gates a hypergeometric test, adjusted together (Holm). Trainings of one
    student choose among the same heads, so over all of them the head is the unit: the role's label
    is permuted over the heads, and once within their layers. One-sided.
    """
    own = kept[(kept["way"] == GATES) & (kept["updates"] == UPDATES)]
    wide = own.pivot(index=["seed", "penalty"], columns=["layer", "head"], values="kept")
    wide = wide.astype(bool).sort_index(axis=1)
    wide = wide[wide.any(axis=1) & ~wide.all(axis=1)]
    columns = ["test", "penalty", "seed", "kept", "with_role", "without", "p", "p_holm"]
    if wide.empty:
        return pd.DataFrame(columns=columns)
    has_role, layers = with_role(before), wide.columns.get_level_values("layer").to_numpy()
    rows = [
        {"test": "one", "penalty": penalty, "seed": seed, **_hypergeometric(row, has_role)}
        for (seed, penalty), row in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    frame = pd.DataFrame(rows).assign(p_holm=holm([row["p"] for row in rows]))
    shares = wide.to_numpy().mean(0)
    overall = {"with_role": shares[has_role].mean(), "without": shares[~has_role].mean()}
    whole = [
        {"test": name, **overall, "p": permutation_p(shares, has_role, blocks)}
        for name, blocks in (("all", np.zeros_like(layers)), ("all, within layers", layers))
    ]
    return pd.concat([frame, pd.DataFrame(whole)], ignore_index=True)[columns]


def with_role(before: pd.DataFrame) -> Bool[np.ndarray, " head"]:
    """Of the table of roles, in the order of blocks."""
    return (before.sort_values(["layer", "head"])["role"] != NO_ROLE).to_numpy()


def _hypergeometric(
    kept: Bool[np.ndarray, " head"], has_role: Bool[np.ndarray, " head"]
) -> dict[str, object]:
    both = int((kept & has_role).sum())
    p = stats.hypergeom.sf(both - 1, len(kept), int(has_role.sum()), int(kept.sum()))
    return {"kept": int(kept.sum()),
            "with_role": kept[has_role].mean() if has_role.any() else np.nan,
            "without": kept[~has_role].mean(), "p": float(p)}  # fmt: skip


def permutation_p(
    shares: Float[np.ndarray, " head"], label: Bool[np.ndarray, " head"], blocks: np.ndarray
) -> float:
    """One-sided p of the labelled heads' mean share, the labels permuted within the blocks.

    NaN where no head or every head has the label.
    """
    if not label.any() or label.all():
        return float("nan")
    noise = np.random.default_rng(0)
    drawn = np.zeros(PERMUTATIONS)
    for block in np.unique(blocks):
        own = blocks == block
        marked = int(label[own].sum())
        order = noise.permuted(np.tile(shares[own], (PERMUTATIONS, 1)), axis=1)
        drawn += order[:, :marked].sum(1)
    reached = np.count_nonzero(drawn >= shares[label].sum() - 1e-9)
    return (reached + 1) / (PERMUTATIONS + 1)


# ------------------------------------------------------------------ claims


def claims_of(
    points: Sequence[Point], before: pd.DataFrame, labels: Mapping[str, object], shut: str
) -> Iterator[dict[str, object]]:
    """One row per claim and seed; `shut` is the gate `converged` of pruned models.

    Seeds whose sweep is not as long as the longest have no row: means over other λ would stand
    beside each other as if they differed in their seed alone.
    """
    sweeps = {
        seed: [each for each in usual(points) if each.seed == seed]
        for seed in dict.fromkeys(each.seed for each in points)
    }
    tried = {seed: sum(e.way == GATES for e in mine) for seed, mine in sweeps.items()}
    for seed, mine in sweeps.items():
        if tried[seed] < max(FEWEST, *tried.values()):
            continue
        of = {**labels, "corpus": RELEASED, "seed": str(seed)}
        yield from _losses(mine, of, shut)
        yield from _survivals(mine, before, of)
        gap = lead(mine, RANDOM)
        if gap is not None:
            for claim in ("voita-s6-choice-matters", "budhraja-random-hardly-worse"):
                yield _row(claim, {**of, "closed": shut}, gap)


def trained_enough(results: pd.DataFrame) -> str:
    """The gate `converged` of pruned models, in the ledger's words: whether a fifth more updates
    move BLEU by less than a quarter, for gates and for random heads.

    `results` has one row per training of one student, see `results` of _sweep.py.
    """
    keys = ["way", "penalty", "seed", "draw"]
    own = results[results["way"].isin([GATES, RANDOM])]
    bleu = own.pivot(index=keys, columns="updates", values="bleu")
    if not {UPDATES, LONGER} <= set(bleu) or (moved := bleu[LONGER] - bleu[UPDATES]).isna().all():
        return f"converged: pruned models were trained for {UPDATES} updates alone"
    most = moved[moved.abs().idxmax()]
    if abs(most) < SMALL_BLEU:
        return NONE
    return f"converged: a fifth more updates moved BLEU of a pruned model by {most:.1f}"


def _losses(
    points: Sequence[Point], of: Mapping[str, object], shut: str
) -> Iterator[dict[str, object]]:
    """The BLEU that pruning costs, at two sizes, against the whole model of the seed."""
    whole = next((each for each in points if each.way == WHOLE), None)
    gates = sorted((each for each in points if each.way == GATES), key=lambda each: each.penalty)
    if whole is None:
        return
    heads = len(whole.heads)
    half = max((e for e in gates if 2 * e.kept < heads), key=lambda e: e.kept, default=None)
    fifth = min((e for e in gates if 0 < e.kept <= heads / 4),
                key=lambda e: (abs(48 * e.kept - 10 * heads), e.kept), default=None)  # fmt: skip
    for claim, point in (("voita-f7-half", half), ("voita-f7-four-fifths", fifth)):
        if point is not None:
            test = paired(point.made.statistics, whole.made.statistics)
            yield {"claim": claim, **of, "value": test.difference, "low": test.low,
                   "high": test.high, "baseline": corpus_bleu(whole.made.statistics),
                   "closed": shut}  # fmt: skip


def _survivals(
    points: Sequence[Point], before: pd.DataFrame, of: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Whether heads with a role, or near one, are the ones that stay; intervals are over heads.

    That of the first claim is from permuting the roles.
    """
    gates = [each for each in points if each.way == GATES and 0 < each.kept < len(each.heads)]
    if not gates:
        return
    closed = [set(each.made.closed) for each in gates]
    kept = np.array([[head not in shut for head in gates[0].heads] for shut in closed])
    ordered = before.sort_values(["layer", "head"])
    has_role, shares = with_role(before), kept.mean(0)
    of = {**of, "closed": NONE}
    yield _row("voita-f8-specialised-last", of, permuted_gap(shares, has_role))
    nearness, blocks = ordered["nearness"].to_numpy(), ordered["layer"].tolist()
    matched = block_matched_share(nearness, kept, blocks)
    yield _row("voita-f8-nearest-a-role-last", of, pair_share(nearness, kept), matched)


def _row(
    claim: str, of: Mapping[str, object], values: np.ndarray, baseline: float = np.nan
) -> dict[str, object]:
    low, high = percentile_interval(values[1:])
    return {"claim": claim, **of, "value": float(values[0]), "low": low, "high": high,
            "baseline": baseline}  # fmt: skip


def paper() -> pd.DataFrame:
    """Figure 7 of the paper, en→ru, as far as the ledger has it: heads left, change of BLEU."""
    rows = []
    for claim in ("voita-f7-half", "voita-f7-four-fifths"):
        for each in ledger().claim(claim).paper:
            (left,) = re.findall(r"(\d+) of 48", each.of)
            rows.append({"left": int(left), "value": each.values[0],
                         "text": each.of.partition(",")[0]})  # fmt: skip
    return pd.DataFrame(rows)
