"""Page 02: heads with planted functions and noise go through every measure, live.

Every value is compared with the one that must come out, counted in plain Python (`_expected`), and
heads of random weights must reach no role.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.anatomy._planted import (
    COUNTS,
    FAULTS,
    HEADS,
    NOISES,
    OFFSETS,
    RELATION_NAMES,
    RIGHT,
    ROUNDING,
    Known,
    Values,
    by_name,
    expectations,
    measured,
    measures,
    offset_name,
)
from headbook.chapters.anatomy._sample import Text, sample
from headbook.chapters.chapter import Facts, Tables
from headbook.heads.measure import HeadMeasure, Selection
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.heads.random_head import random_heads
from headbook.heads.recording import Shared
from headbook.heads.roles import Thresholds, roles
from headbook.runs.store import Store
from headbook.types import Kind

NUMBER = 2
TITLE = "Do the measures work?"
WORK = "headbook"
KEYS = ("sentences", "seed", "heads")


@dataclass(frozen=True)
class Parameters:
    """Numbers of the sample's trees and of heads of random weights, and the seed of all noise."""

    sentences: int = 500
    random_heads: int = 48
    seed: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Planted heads under every measure and their roles, faulty measures, random heads."""
    text = sample(parameters.sentences)
    labels = {"sentences": len(text.sentences), "seed": parameters.seed}
    known, made = expectations(text), measured(text, parameters.seed, RIGHT | FAULTS)
    right = made.pop("right")
    baseline = offset_accuracy(text)
    found = {
        "planted": planted_rows(known, by_name(right)),
        "roles": role_rows(right, baseline),
        "faults": fault_rows(known, made),
        "random_heads": random_rows(text, baseline, parameters.random_heads),
    }
    return {name: pd.DataFrame(rows).assign(**labels) for name, rows in found.items()}


def facts(tables: Tables) -> Facts:
    """The numbers of the page's prose."""
    every, random, faults = tables["planted"], tables["random_heads"], tables["faults"]
    noisy, own = every[every["noise"] > 0], every[every["own"] & (every["head"] != "uniform")]
    gap = (own["value"] - own["expected"]).abs()
    marked = random.dropna(subset="threshold")
    return {
        **_single(every),
        "sentences": words.count(int(every["sentences"].iloc[0])),
        "heads": str(every["head"].nunique()),
        "measures": str(every["measure"].nunique()),
        "values": words.count(len(every)),
        "found": words.count(int(every["found"].sum())),
        "without_noise": words.count(int((every["noise"] == 0).sum())),
        "covered": words.percent(float(noisy["covered"].mean())),
        "largest_gap": f"{100 * gap.max():.1f} points",
        "faults": str(len(faults)),
        "faults_seen": str((faults["wrong"] > 0).sum()),
        "random_heads": str(random["heads"].iloc[0]),
        "random_above": str((marked["best"] >= marked["threshold"]).sum()),
        "random_neighbour": words.percent(_best(random, offset_name(-1), offset_name(1))),
        "random_relation": words.percent(_best(random, *RELATION_NAMES)),
        "random_rare": words.percent(_best(random, "one of two rarest")),
    }


def planted_rows(known: Known, values: Values) -> Iterator[dict[str, object]]:
    """One row per head, noise and measure: the value, its interval, and the known answer."""
    for number, head in enumerate(HEADS):
        for (layer, noise), name in product(enumerate(NOISES), COUNTS):
            must = known[head.name, noise, name]
            if must.count:
                value, low, high = (float(each[layer, number]) for each in values[name])
                yield {
                    "head": head.name, "noise": noise, "measure": name,
                    "own": name == head.measure, "value": value, "low": low, "high": high,
                    "expected": must.mean, "allowed": must.allowed,
                    "found": abs(value - must.mean) <= must.allowed + ROUNDING,
                    "covered": low - ROUNDING <= must.mean <= high + ROUNDING,
                    "count": must.count,
                }  # fmt: skip


def fault_rows(
    known: Known, made: Mapping[str, Mapping[str, HeadMeasure]]
) -> Iterator[dict[str, object]]:
    """Number of values that leave their known answers when the measures have a fault."""
    for fault, measures_made in made.items():
        rows = list(planted_rows(known, by_name(measures_made)))
        wrong = [row for row in rows if not row["found"]]
        yield {
            "fault": fault, "values": len(rows), "wrong": len(wrong),
            "wrong_without_noise": sum(row["noise"] == 0 for row in wrong),
        }  # fmt: skip


def offset_accuracy(text: Text) -> Float[Tensor, " column"]:
    """The best fixed offset's accuracy on all sentences: the baseline of syntactic heads."""
    offsets = OffsetShare(text.trees, replicates=1)
    for batch in text.batches:
        offsets.update({}, batch)
    return offset_baseline(offsets.sums(), Selection.EVERYTHING).accuracy


def role_rows(
    made: Mapping[str, HeadMeasure], baseline: Float[Tensor, " column"]
) -> Iterator[dict[str, object]]:
    """Every role that a planted head is given, by the thresholds of the book."""
    positional, syntactic, rare = (
        made[name].compute() for name in ("positional", "syntactic", "rare")
    )
    for role in roles(positional, torch.tensor(OFFSETS), syntactic, baseline, rare):
        yield {
            "head": HEADS[role.head].name, "noise": NOISES[role.layer], "role": str(role.role),
            "detail": role.detail, "score": role.score, "threshold": role.threshold,
        }  # fmt: skip


def random_rows(
    text: Text, baseline: Float[Tensor, " column"], heads: int
) -> Iterator[dict[str, object]]:
    """The best of so many heads of random weights under every measure, beside the threshold.

    Chosen and scored on all sentences, which is the hardest test: a gain by luck counts.
    """
    made = measures(text, 0)
    for batch in text.batches:
        tape = Shared(random_heads(batch, Kind.ENCODER, layers=heads))
        for measure in made.values():
            measure.update(tape, batch)
    marks = Thresholds()
    thresholds = {
        **{offset_name(offset): marks.positional for offset in OFFSETS},
        **dict(zip(RELATION_NAMES, (baseline + marks.syntactic_margin).tolist(), strict=True)),
        "one of two rarest": marks.rare,
    }
    for name, (value, *_) in by_name(made).items():
        if not value.isnan().all():
            yield {
                "measure": name, "heads": heads, "best": float(value.max()),
                "mean": float(value.mean()), "threshold": thresholds.get(name, math.nan),
            }  # fmt: skip


def own(tables: Tables) -> pd.DataFrame:
    """Rows of the figure: each head by its own measure; entropies, in nats, are left out."""
    every = tables["planted"]
    rows = every[every["own"] & (every["measure"] != "entropy")]
    labels = {noise: f"{words.percent(noise)} noise" if noise else "no noise" for noise in NOISES}
    return rows.assign(share=rows["noise"].map(labels))


def every_value(tables: Tables, noise: float = 0.25) -> pd.DataFrame:
    """Measured / known, one row per measure and a column per head; per cent, entropies in nats."""
    rows = tables["planted"].query("noise == @noise")
    cells = rows.assign(cell=[
        f"{row.value:.2f} / {row.expected:.2f}" if row.measure == "entropy"
        else f"{100 * row.value:.0f} / {100 * row.expected:.0f}" for row in rows.itertuples()
    ])  # fmt: skip
    return _wide(cells, "measure", "head")


def given_roles(tables: Tables) -> pd.DataFrame:
    """The roles each head is given, a column per share of noise."""
    names = {"positional": "positional", "syntactic": "syntactic", "rare": "rare words"}
    rows = tables["roles"].assign(
        cell=[f"{names[row.role]} ({_plain(row.detail)})" for row in tables["roles"].itertuples()],
        column=tables["roles"]["noise"].map(words.percent),
    )
    joined = rows.groupby(["head", "column"], sort=False)["cell"].agg("; ".join).reset_index()
    wide = _wide(joined, "head", "column")
    none = pd.DataFrame({"head": [each.name for each in HEADS]})
    return none.merge(wide, how="left").fillna("none")


def seen_faults(tables: Tables) -> pd.DataFrame:
    """Number of values that each fault moves away from the known answer."""
    rows = tables["faults"]
    return pd.DataFrame({
        "fault": rows["fault"],
        "wrong values": [f"{row.wrong} of {row.values}" for row in rows.itertuples(index=False)],
        "wrong without noise": rows["wrong_without_noise"],
    })  # fmt: skip


def random_beside_thresholds(tables: Tables) -> pd.DataFrame:
    """The best random head beside the threshold of a role, in per cent; offsets by their place."""
    rows = tables["random_heads"].dropna(subset="threshold")
    offsets = rows["measure"].isin(map(offset_name, OFFSETS))
    place = rows["measure"].str.partition(",")[0].where(offsets, rows["measure"])
    found = rows.groupby(place, sort=False)[["best", "threshold"]].max().map(words.percent)
    return found.rename_axis("measure").rename(columns={"best": "best random head"}).reset_index()


def _wide(cells: pd.DataFrame, rows: str, columns: str) -> pd.DataFrame:
    """Cells as a table in their own order."""
    wide = cells.pivot(index=rows, columns=columns, values="cell")
    ordered = wide.loc[list(dict.fromkeys(cells[rows])), list(dict.fromkeys(cells[columns]))]
    return ordered.reset_index().rename_axis(columns=None)


def _plain(detail: str) -> str:
    """A role's detail with its signs and arrows."""
    return str(detail).replace("_to_", " → ").replace("-", "−")


def _best(random: pd.DataFrame, *measures: str) -> float:
    return float(random.loc[random["measure"].isin(measures), "best"].max())


def _single(every: pd.DataFrame) -> Facts:
    """Three heads with a quarter of noise: measured, with its interval, and known."""
    rows = every[every["own"] & (every["noise"] == 0.25)].set_index("head")
    shown = {"previous": "previous token", "object": "object of the verb", "rarest": "rarest token"}
    found: Facts = {}
    for key, head in shown.items():
        row = rows.loc[head]
        found[key] = words.estimate(row["value"], row["low"], row["high"])
        found[f"{key}_known"] = words.percent(row["expected"])
    return found
