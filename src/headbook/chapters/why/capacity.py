"""Page 45: how many keys a head's memory holds (Schlag, Irie and Schmidhuber 2021, section 6.1)."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np
import pandas as pd

from headbook.artefacts.recall import RecallRun, recalled
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table
from headbook.claims.gates import NONE
from headbook.models.recall import Memory, Rule, Split
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.types import UserError

NUMBER = 45
TITLE = "How much does a head remember?"
WORK = "schlag2021"
KEYS = ("setting", "memory", "heads", "split", "keys", "seed")

SETTINGS = CAPACITY, UPDATE, HEADS = "capacity", "update", "heads"
SOFTMAX, ELU, DPFP = "softmax", "ELU + 1", "DPFP-1"
FAVOR, MENDED = "FAVOR+ 64", "FAVOR+ 64, scaled, once"
SEEDS = 3
"""Of what claims about one head need; one elsewhere, as trainings take long."""
ONE_HEAD = {
    SOFTMAX: {20: 1, 60: 1, 100: 1, 200: 1, 300: SEEDS},
    ELU: {20: 1, 60: SEEDS, 80: 1, 100: SEEDS},
    DPFP: {20: 1, 60: SEEDS, 100: SEEDS, 200: 1},
    "DPFP-2": {100: 1, 200: SEEDS},
    "DPFP-3": {200: SEEDS},
    FAVOR: {40: 1, 60: SEEDS, 100: 1},
    "FAVOR+ 64, once": {60: 1},
    "FAVOR+ 64, scaled": {60: 1},
    MENDED: {40: 1, 60: SEEDS},
}
"""Seeds by map and number of keys, all keys unique."""
WRITTEN = 40
"""Keys that are written again, of the claim about them."""
AGAIN = {
    (rule, name): {WRITTEN: SEEDS if name == DPFP else 1}
    for name in (ELU, DPFP, "DPFP-2", "DPFP-3")
    for rule in (Rule.SUM, Rule.DELTA)
} | {(Rule.SUM, FAVOR): {WRITTEN: 1}, (Rule.DELTA, FAVOR): {400: 1}}
"""Seeds by rule, map and number of keys where keys are written again."""
SEVERAL, SEVERAL_KEYS = (2, 4, 8), 100
SPLIT_HEADS = 4
"""Splits of values as well."""

PAPER = {
    SOFTMAX: {20: 0.0006, 60: 0.0001, 100: 0.0, 200: 0.0, 300: 0.0, 400: 0.0, 460: 0.0089,
              500: 0.0089, 600: 0.0303},
    ELU: {20: 0.0009, 40: 0.0008, 60: 0.0245, 80: 0.1084, 100: 0.1642, 140: 0.2709, 200: 0.3420,
          300: 0.3971, 400: 0.4216, 500: 0.4287, 600: 0.4513},
    DPFP: {20: 0.0008, 60: 0.0004, 100: 0.0002, 120: 0.0083, 140: 0.0510, 200: 0.1732,
           300: 0.2855, 400: 0.3415, 500: 0.3864, 600: 0.4109},
    "DPFP-2": {20: 0.0003, 100: 0.0005, 200: 0.0004, 300: 0.0681, 400: 0.1643, 500: 0.2756,
               600: 0.3234},
    "DPFP-3": {20: 0.0005, 100: 0.0005, 200: 0.0009, 300: 0.0003, 400: 0.0359, 500: 0.1691,
               600: 0.1984},
    FAVOR: {20: 0.1174, 40: 0.2740, 60: 0.4833, 80: 0.5, 100: 0.4961, 200: 0.5, 300: 0.5,
            400: 0.5, 500: 0.5, 600: 0.5},
}  # fmt: skip
"""Best losses in the authors' logs, setting 1."""
PAPER_AGAIN = {
    (Rule.SUM, DPFP): {40: 0.1039},
    (Rule.DELTA, DPFP): {40: 0.0010},
    (Rule.DELTA, ELU): {40: 0.0010},
}
"""The same, setting 2."""


@dataclass(frozen=True)
class Parameters:
    """Memories are trained for as many keys as this, of the numbers on the page; 600 is all.

    With a `setting` (capacity, update or heads) those alone that its claims need, with `heads`
    those of so many heads and of one. UserError for another setting or number of heads.
    """

    keys: int = 20
    setting: str = ""
    heads: int = 0

    def __post_init__(self) -> None:
        if self.setting not in ("", *SETTINGS):
            raise UserError(f"setting is {self.setting!r}; give one of {', '.join(SETTINGS)}")
        if self.heads not in (0, *SEVERAL):
            raise UserError(f"heads is {self.heads}; give one of {SEVERAL}, or 0 for all")


def plan() -> Iterator[tuple[str, RecallRun]]:
    """Every run of the page with its setting, by kind."""
    for name, seeds in ONE_HEAD.items():
        memory = _memory(Rule.SUM, name)
        for keys, count in seeds.items():
            yield from ((CAPACITY, RecallRun(memory, keys, seed=seed)) for seed in range(count))
    for (rule, name), seeds in AGAIN.items():
        for keys, count in seeds.items():
            runs = (RecallRun(_memory(rule, name), keys, True, seed) for seed in range(count))
            yield from ((UPDATE, run) for run in runs)
    for rule, heads in product((Rule.SUM, Rule.SOFTMAX), SEVERAL):
        yield HEADS, RecallRun(Memory(rule, ELU, heads=heads), SEVERAL_KEYS)
    for rule in (Rule.SUM, Rule.SOFTMAX):
        memory = Memory(rule, ELU, heads=SPLIT_HEADS, split=Split.VALUES)
        yield HEADS, RecallRun(memory, SEVERAL_KEYS)


def _memory(rule: Rule, name: str) -> Memory:
    return Memory(Rule.SOFTMAX) if name == SOFTMAX else Memory(rule, name)


def needed(setting: str, heads: int = 0) -> list[tuple[str, RecallRun]]:
    """The runs of a setting, of several heads also those of one beside them; without one all."""
    one = (CAPACITY, SEVERAL_KEYS, Memory(map=ELU)) if setting == HEADS else None
    return [(each, run) for each, run in plan()
            if (setting in ("", each) or (each, run.keys, run.memory) == one)
            and (not heads or run.memory.heads in (1, heads))]  # fmt: skip


def compute(parameters: Parameters, store: Store) -> Tables:
    """One row per trained memory; and claims of settings of which all were trained.

    UserError for fewer keys than any memory has.
    """
    runs = needed(parameters.setting, parameters.heads)
    least = min(run.keys for _, run in runs)
    if parameters.keys < least:
        raise UserError(f"keys is {parameters.keys}; give {least} or more")
    asked = [each for each in runs if each[1].keys <= parameters.keys]
    rows = pd.DataFrame([_row(*each, store) for each in asked], columns=list(ROW))
    whole = [name for name in SETTINGS
             if {*needed(name, parameters.heads * (name == HEADS))} <= {*asked}]  # fmt: skip
    return {"recall": rows} | ({"claims": claims(rows, whole)} if whole else {})


ROW = ("setting", "memory", "rule", "features", "heads", "split", "keys", "seed", "best", "loss",
       "untrained", "steps")  # fmt: skip


def _row(setting: str, run: RecallRun, store: Store) -> dict[str, object]:
    memory = run.memory
    named = SOFTMAX if memory.rule is Rule.SOFTMAX else memory.map
    return {
        "setting": setting, "memory": named, "rule": str(memory.rule),
        "features": memory.features or np.nan, "heads": memory.heads, "split": str(memory.split),
        "keys": run.keys, "seed": run.seed, **asdict(recalled(run, store)),
    }  # fmt: skip


def bound(keys: float | int, features: float | int) -> float:
    """The least loss of weights of that rank for so many keys (Eckart and Young 1936).

    Answering all queries is one matrix, to be near the identity; so many of its directions can be.
    """
    return max(0.0, (1 - features / keys) / 2)


def remembered(keys: pd.Series, loss: pd.Series) -> pd.Series:
    """Keys that would be recalled without error, were the others answered with zero."""
    return keys * (1 - 2 * loss)


def over(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Keys remembered: mean over seeds and, of three or more, its interval; the mean best loss."""
    rows = rows.assign(value=remembered(rows["keys"], rows["best"]))
    found = []
    for labels, own in rows.groupby(by, sort=False, dropna=False):
        seeds = over_seeds(own["value"])
        found.append({**dict(zip(by, labels, strict=True)), "value": seeds.mean, "low": seeds.low,
                      "high": seeds.high, "best": own["best"].mean(), "loss": own["loss"].mean(),
                      "untrained": own["untrained"].mean(), "seeds": seeds.count})  # fmt: skip
    return pd.DataFrame(found)


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """Keys remembered of those stored, one head, all keys unique."""
    shown = [name for name in ONE_HEAD if name in PAPER or name == MENDED]
    own = rows[(rows["setting"] == CAPACITY) & rows["memory"].isin(shown)]
    return over(own, ["memory", "keys"])


def paper() -> pd.DataFrame:
    """The same of the authors' logs."""
    rows = [(name, keys, loss) for name, found in PAPER.items() for keys, loss in found.items()]
    frame = pd.DataFrame(rows, columns=["memory", "keys", "best"])
    return frame.assign(value=remembered(frame["keys"], frame["best"]))


def heads_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Keys remembered of SEVERAL_KEYS by number of heads, one column per rule and split."""
    own = rows[(rows["keys"] == SEVERAL_KEYS) & rows["memory"].isin((SOFTMAX, ELU))
               & (rows["setting"] != UPDATE)]  # fmt: skip
    mean = over(own, ["memory", "split", "heads"])
    alone = mean[mean["heads"] == 1].assign(split=str(Split.VALUES))
    mean = pd.concat([mean, alone])
    mean["column"] = mean["memory"] + ", " + mean["split"] + " split"
    mean["shown"] = [_estimate(each) for each in mean.itertuples()]
    wide = mean.pivot(index="heads", columns="column", values="shown")
    order = [f"{name}, {split} split" for name in (ELU, SOFTMAX) for split in Split]
    return wide[order].fillna("").reset_index().rename_axis(columns=None)


def _estimate(row: object) -> str:
    if np.isnan(row.low):
        return f"{row.value:.0f}"
    return f"{row.value:.1f} [{row.low:.1f}, {row.high:.1f}]".replace("-", "−")


def update_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Setting 2: best loss beside the authors', and the loss on sequences of the trained length."""
    mean = over(rows[rows["setting"] == UPDATE], ["rule", "memory", "keys"])
    theirs = [PAPER_AGAIN.get((Rule(each.rule), each.memory), {}).get(each.keys)
              for each in mean.itertuples()]  # fmt: skip
    shown = mean.assign(paper=pd.Series(theirs, dtype=float))[
        ["rule", "memory", "keys", "paper", "best", "loss"]
    ]
    numbers = {name: shown[name].map(_loss) for name in ("best", "loss")}
    numbers["paper"] = shown["paper"].map(_known)
    return shown.assign(**numbers).rename(columns={
        "memory": "map", "paper": "authors' best loss", "best": "best loss here",
        "loss": "loss, long sequences"})  # fmt: skip


def losses_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Setting 1: best loss beside the authors' and the bound, untrained keys, keys remembered."""
    mean = over(rows[rows["setting"] == CAPACITY], ["memory", "features", "keys"])
    theirs = [PAPER.get(each.memory, {}).get(each.keys) for each in mean.itertuples()]
    least = [bound(each.keys, each.features) if each.features > 0 else None
             for each in mean.itertuples()]  # fmt: skip
    possible = pd.Series(least, dtype=float).map(_known)
    columns = {"memory": mean["memory"], "features": mean["features"].map(_whole),
               "keys": mean["keys"], "authors' best": pd.Series(theirs, dtype=float).map(_known),
               "best here": mean["best"].map(_loss), "least possible": possible,
               "untrained": mean["untrained"].map(_loss),
               "keys remembered": [_estimate(each) for each in mean.itertuples()],
               "seeds": mean["seeds"]}  # fmt: skip
    return pd.DataFrame(columns)


def _whole(number: float) -> str:
    return "" if np.isnan(number) else words.count(number)


def _loss(value: float) -> str:
    return "NaN" if np.isnan(value) else f"{value:.4f}"


def _known(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4f}"


def claims(rows: pd.DataFrame, settings: Iterable[str] = SETTINGS) -> pd.DataFrame:
    """One row per claim, memory and seed, of claims about these settings."""
    of = {CAPACITY: _of_one_head, UPDATE: _of_updates, HEADS: _of_several_heads}
    return claims_table([row for setting in settings for row in of[setting](rows)])


def _kept(rows: pd.DataFrame) -> pd.Series:
    """Keys remembered by one head, by memory, number of keys and seed."""
    one = rows[rows["setting"] == CAPACITY]
    kept = one.assign(value=remembered(one["keys"], one["best"]))
    return kept.set_index(["memory", "keys", "seed"])["value"].sort_index()


def _of_one_head(rows: pd.DataFrame) -> list[dict[str, object]]:
    one, kept = rows[rows["setting"] == CAPACITY], _kept(rows)
    found = [*_fits(one), _below(one)]
    found += _differences("capacity-grows-with-features", "DPFP-1 over ELU + 1",
                          kept[DPFP, 100] - kept[ELU, 100])  # fmt: skip
    for name, label in ((FAVOR, "as in the logs"), (MENDED, "scaled and drawn once")):
        found += _differences("capacity-random-features-less", f"FAVOR+ {label}",
                              kept[DPFP, 60] - kept[name, 60])  # fmt: skip
    soft = one[(one["memory"] == SOFTMAX) & (one["keys"] == 300)]
    return found + _differences("capacity-softmax-more", SOFTMAX, soft.set_index("seed")["best"])


def _of_updates(rows: pd.DataFrame) -> list[dict[str, object]]:
    again = rows[(rows["setting"] == UPDATE) & (rows["keys"] == WRITTEN) & (rows["memory"] == DPFP)]
    best = again.set_index(["rule", "seed"])["best"]
    return _differences("capacity-delta-updates", DPFP, best[Rule.SUM] - best[Rule.DELTA])


def _of_several_heads(rows: pd.DataFrame) -> list[dict[str, object]]:
    found, kept = [], _kept(rows)
    several = rows[(rows["setting"] == HEADS) & (rows["memory"] == ELU)
                   & (rows["split"] == Split.FEATURES)]  # fmt: skip
    for heads, own in several.groupby("heads"):
        together = own.assign(value=remembered(own["keys"], own["best"])).set_index("seed")["value"]
        found += _differences("capacity-several-heads-more", f"{ELU}, {heads} heads",
                              together - kept[ELU, SEVERAL_KEYS])  # fmt: skip
    return found


LABELS = {"corpus": "", "target": "", "low": np.nan, "high": np.nan, "baseline": np.nan,
          "closed": NONE}  # fmt: skip


def _differences(claim: str, model: str, values: pd.Series) -> list[dict[str, object]]:
    return [{"claim": claim, "model": model, "seed": seed, **LABELS, "value": value}
            for seed, value in values.dropna().items()]  # fmt: skip


def _fits(one: pd.DataFrame) -> Iterator[dict[str, object]]:
    """The best loss at the largest number of keys that is not above the number of features."""
    exact = one[one["memory"].str.startswith(("ELU", "DPFP")) & (one["keys"] <= one["features"])]
    for name, own in exact.groupby("memory", sort=False):
        most = own[own["keys"] == own["keys"].max()].set_index("seed")["best"]
        label = f"{name}, {own['keys'].max()} keys"
        yield from _differences("capacity-until-features", label, most)


def _below(one: pd.DataFrame) -> dict[str, object]:
    """Distance of the lowest loss below the bound: negative where none lies below."""
    known = one.dropna(subset=["features", "best"])
    least = [bound(each.keys, each.features) for each in known.itertuples()]
    value = float((np.array(least) - known["best"]).max())
    return {"claim": "capacity-bound", "model": "trained memories", "seed": "", **LABELS,
            "value": value}  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    rows = tables["recall"]
    mean = over(rows[rows["setting"] == CAPACITY], ["memory", "keys"]).set_index(["memory", "keys"])
    again = over(rows[rows["setting"] == UPDATE], ["rule", "memory", "keys"])
    again = again.set_index(["rule", "memory", "keys"])
    found: Facts = {"seeds": str(SEEDS)}
    names = {SOFTMAX: "softmax", ELU: "elu", DPFP: "dpfp1", "DPFP-2": "dpfp2", "DPFP-3": "dpfp3",
             FAVOR: "favor", MENDED: "mended", "FAVOR+ 64, once": "once",
             "FAVOR+ 64, scaled": "scaled"}  # fmt: skip
    features = rows.drop_duplicates("memory").set_index("memory")["features"]
    for (name, keys), row in mean.iterrows():
        key = f"{names[name]}_{keys}"
        if features[name] > 0:
            found[f"{key}_least"] = f"{bound(keys, features[name]):.3f}"
        found |= {key: f"{row['best']:.3f}", f"{key}_kept": f"{row['value']:.0f}"}
        if keys in PAPER.get(name, {}):
            found[f"{key}_paper"] = f"{PAPER[name][keys]:.3f}"
    for rule, key in ((Rule.SUM, "sum"), (Rule.DELTA, "delta")):
        row = again.loc[(rule, DPFP, WRITTEN)]
        found |= {f"{key}_again": f"{row['best']:.3f}", f"{key}_long": f"{row['loss']:.3f}",
                  f"{key}_again_paper": f"{PAPER_AGAIN[rule, DPFP][WRITTEN]:.3f}"}  # fmt: skip
    several = over(rows[rows["setting"] == HEADS], ["memory", "split", "heads"])
    for row in several[several["heads"] > 1].itertuples():
        split = "whole" if row.split == Split.FEATURES else "sliced"
        found[f"{names[row.memory]}_{row.heads}_{split}"] = f"{row.value:.0f}"
    return found
