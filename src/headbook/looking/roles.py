"""`hb.roles`: which heads have which role, by the thresholds of the works that named them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.heads.measure import RatioSums, largest
from headbook.heads.repeats import DUPLICATE, INDUCTION, REPEATS, SHUFFLED
from headbook.heads.scores import REACH
from headbook.looking.measured import Measured, measured, of_rows, without_intervals
from headbook.looking.table import ONE_OF_TWO, RELATIONS
from headbook.types import Kind

PREVIOUS, NEXT = "previous token", "next token"
SYNTACTIC, RARE = "syntactic", "rare words"
POSITIONAL_AT = 0.90
"""Voita et al. 2019, section 5.1: at least 90 % of the time; of one neighbour, -1 or +1."""
SYNTACTIC_MARGIN = 0.10
"""Section 5.2: 10 % above the positional baseline; that these are percentage points is ours."""
SINK, INDUCES, DUPLICATES = "first token (sink)", "induction", "duplicate token"
SINK_AT = 0.30
"""Gu et al. 2025, "When attention sink emerges in language models": ε of their sink metric."""
COPIES_AT = 0.50
"""Ours: most of a token's weight. Olsson et al. 2022 show scores and set no threshold."""
RARE_AT = 0.50
"""Ours, of one of the two rarest tokens: the paper has no threshold, but reports over 50 %."""
CHOSEN_ON, SCORED_ON = 0, 1
"""Halves of the sentences, see heads/bootstrap.py."""
PAPER = "Voita et al. 2019"


def roles(heads: pd.DataFrame, held: bool = True) -> pd.DataFrame:
    """The roles of the heads in a table from `hb.measure`, one row per head and role, best first.

    A head has a role when it reaches the threshold on one half of the sentences, on which it is
    chosen, and again on the other half, on which it is scored, and does better than any head of the
    null networks, if they were measured; baselines are chosen and scored on the same halves. A head
    may have several roles. `held=False` returns every head and candidate.

    kind, layer, head: encoder, decoder or cross; layer and head from 1
    role: "previous token", "next token", "syntactic" or "rare words"; of causal self-attention not
        "next token", but "first token (sink)", "induction" and "duplicate token"
    detail: the offset, the relation and direction, or what is looked at
    score, low, high: on the second half, with a 95 % bootstrap interval over its sentences
    threshold: the score required on both halves: 0.9 of a neighbour, the baseline and 0.1 more
        (syntactic), 0.3 (sink), 0.5 (all others)
    baseline: best fixed offset (syntactic), a uniform head (rare words), or the head's own score
        where repeats are shuffled (induction, duplicate token)
    tag_rule: best part-of-speech rule, which no threshold uses
    null: largest score of any head of null networks with permuted or redrawn weights
    chosen: the score on the first half
    held: whether both scores reach their thresholds, and the second is above `null`
    source: where the threshold comes from

    UserError for a table that `hb.measure` did not return.
    """
    of = measured(heads)
    table = pd.concat(_candidates(of), ignore_index=True)
    table = of_rows(without_intervals(table, of.sentences["all"]), heads)
    order = ["role", "detail", "score"]
    table = table.sort_values(order, ascending=[True, True, False], na_position="last")
    return (table[table["held"]] if held else table).reset_index(drop=True)


def _candidates(of: Measured) -> Iterator[pd.DataFrame]:
    """Every head of a kind, tried for one role after the other."""
    for kind, sums in of.sums.items():
        if kind is not Kind.CROSS:  # a neighbour is one of the same sentence
            source = f"{PAPER}, section 5.1: 90 %"
            for role, offset in ((PREVIOUS, -1), (NEXT, 1))[: 1 if "first" in sums else 2]:
                yield _heads(of, kind, "positional", REACH + offset, role, f"{offset:+d}",
                             [POSITIONAL_AT] * 2, source)  # fmt: skip
        if "syntactic" in sums:
            source = f"{PAPER}, section 5.2: 10 points above the best offset"
            offsets, rules = (_rivals(sums.get(name)) for name in ("offsets", "tags"))
            for at, name in enumerate(RELATIONS):
                marks = offsets[:, at] + SYNTACTIC_MARGIN
                yield _heads(of, kind, "syntactic", at, SYNTACTIC, name, marks, source,
                             baseline=offsets[1, at], tag_rule=rules[1, at])  # fmt: skip
        if "rare" in sums:
            source = f"ours: 50 %; {PAPER}, section 5.3, has no threshold"
            chance = sums["rare_chance"][ONE_OF_TWO].ratio(SCORED_ON).flatten()[0].item()
            yield _heads(of, kind, "rare", ONE_OF_TWO, RARE, "one of two rarest", [RARE_AT] * 2,
                         source, baseline=chance)  # fmt: skip
        if "first" in sums:
            source = "Gu et al. 2025: 30 %"
            yield _heads(of, kind, "first", None, SINK, "token 1", [SINK_AT] * 2, source)
        if REPEATS in sums:
            source = "ours: 50 %; Olsson et al. 2022 have no threshold"
            for role, at, detail in ((INDUCES, INDUCTION, "behind the earlier copy"),
                                     (DUPLICATES, DUPLICATE, "the earlier copy")):  # fmt: skip
                shuffled = sums[SHUFFLED][at].ratio(SCORED_ON)
                yield _heads(of, kind, REPEATS, at, role, detail, [COPIES_AT] * 2, source,
                             baseline=shuffled)  # fmt: skip


def _rivals(sums: RatioSums | None) -> np.ndarray:
    """[half, question]: the best candidate's share where it was chosen, and on the other half."""
    if sums is None:
        return np.full((2, len(RELATIONS)), np.nan)
    chosen, scored = sums.ratio(CHOSEN_ON), sums.ratio(SCORED_ON)
    best = chosen.nan_to_num(nan=-torch.inf).argmax(0, keepdim=True)
    return np.stack([largest(chosen, 0).numpy(), scored.gather(0, best)[0].numpy()])


def _heads(
    of: Measured,
    kind: Kind,
    measure: str,
    cell: int | None,
    role: str,
    detail: str,
    marks: np.ndarray | list[float],
    source: str,
    baseline: float | Tensor = np.nan,
    tag_rule: float = np.nan,
) -> pd.DataFrame:
    """One row per head, tried for a role; `marks` are the thresholds on both halves."""
    sums, nulls = of.sums[kind][measure], of.nulls.get(measure)
    if cell is not None:
        sums, nulls = sums[cell], nulls if nulls is None else nulls[cell]
    there = sums.there
    chosen, score = (sums.ratio(half)[there].numpy() for half in (CHOSEN_ON, SCORED_ON))
    low, high = (each[there].numpy() for each in sums.interval(half=SCORED_ON))
    layer, head = (each.numpy() + 1 for each in there.nonzero(as_tuple=True))
    if isinstance(baseline, Tensor):
        baseline = baseline[there].numpy()
    first = kind is next(iter(of.sums))  # null networks were measured
    null = float(nulls) if first and nulls is not None else np.nan
    row = {"kind": str(kind), "layer": layer, "head": head, "role": role, "detail": detail}
    row |= {"score": score, "low": low, "high": high, "threshold": marks[1]}
    row |= {"baseline": baseline, "tag_rule": tag_rule, "null": null, "chosen": chosen}
    held = (chosen >= marks[0]) & (score >= marks[1]) & ~(score <= null)
    row |= {"held": held, "source": source}
    return pd.DataFrame(row)
