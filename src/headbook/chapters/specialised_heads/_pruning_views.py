"""Page 18's figures and tables of pruned students, and what its sentences ask of the tables."""

from itertools import permutations

import numpy as np
import pandas as pd

from headbook.chapters import sweeps, words
from headbook.chapters.chapter import Tables
from headbook.chapters.specialised_heads._kept import NO_ROLE
from headbook.chapters.specialised_heads._sweep import (
    FROZEN,
    GATES,
    IMPORTANCE,
    RANDOM,
    UPDATES,
    WHOLE,
)
from headbook.chapters.words import TITLES
from headbook.statistics import Summary, over_seeds
from headbook.types import Kind

NAMES = {
    GATES: "gates",
    FROZEN: "gates, weights frozen",
    IMPORTANCE: "most important heads",
    RANDOM: "random heads",
}


def of_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the first student's encoder, which the page tells of."""
    return rows[(rows["model"] == rows["model"].iloc[0]) & (rows["gated"] == Kind.ENCODER)]


def usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the first student's encoder, trained for the usual number of updates."""
    return of_first(rows[rows["updates"] == UPDATES])


def curve(tables: Tables) -> pd.DataFrame:
    """BLEU minus that of the whole model, over heads left, one line per way of choosing heads.

    Gates of further seeds and further random draws are averaged per λ, with their range.
    """
    rows = usual(tables["released"]).query("way != @WHOLE").dropna(subset="difference")
    by = rows.groupby(["way", "penalty"], sort=False)
    mean = by.agg(left=("kept", "mean"), value=("difference", "mean"), least=("difference", "min"),
                  most=("difference", "max"), low=("difference_low", "min"),
                  high=("difference_high", "max"), trainings=("difference", "size"))  # fmt: skip
    return mean.reset_index().assign(way=lambda frame: frame["way"].map(NAMES))


def survival(tables: Tables) -> pd.DataFrame:
    """Share of the heads kept over heads left, of those with a role before and of those without."""
    kept = usual(tables["kept"]).query("way == @GATES")
    before = tables["heads"].query("model == @kept['model'].iloc[0]")
    merged = kept.merge(before[["layer", "head", "role"]], on=["layer", "head"])
    merged["group"] = np.where(merged["role"] == NO_ROLE, "heads without a role",
                               "heads with a role")  # fmt: skip
    merged["left"] = merged.groupby(["penalty", "seed"])["kept"].transform("sum")
    return merged.groupby(["group", "left"], sort=False)["kept"].mean().reset_index(name="value")


def lifetimes(tables: Tables) -> pd.DataFrame:
    """One row per encoder head: the share of the trainings with gates that keep it, and the short
    name of the role that it had before."""
    kept = usual(tables["kept"]).query("way == @GATES")
    before = tables["heads"].query("model == @kept['model'].iloc[0]")
    shares = kept.groupby(["layer", "head"])["kept"].mean().reset_index(name="kept_share")
    merged = shares.merge(before[["layer", "head", "role", "relation"]], on=["layer", "head"])
    short = {"previous token": "−1", "next token": "+1", "rare words": "rare", NO_ROLE: ""}
    merged["short"] = [
        "synt." if role == "syntactic" else short[role] for role in merged["role"]
    ]  # fmt: skip
    return merged


def kept_at(points: pd.DataFrame) -> pd.DataFrame:
    """One row per encoder head of a model: at what share of the λ, and how many, gates keep it.

    `points` are those of one model, whose whole one names every head.
    """
    gates = points[points["arm"] == sweeps.GATES]["encoder_heads"].fillna("").str.split()
    every = points[points["arm"] == sweeps.FURTHER]["encoder_heads"].iloc[0].split()
    counts = [sum(head in kept for kept in gates) for head in every]
    places = [head.removeprefix("L").split("H") for head in every]
    return pd.DataFrame({
        "layer": [int(layer) for layer, _ in places], "head": [int(head) for _, head in places],
        "kept_share": [count / len(gates) for count in counts], "kept_at": map(str, counts),
    })  # fmt: skip


def functions(tables: Tables) -> pd.DataFrame:
    """One row per training: heads left, and how many have which role, measured anew after it."""
    rows = usual(tables["roles"]).query("way in [@GATES, @FROZEN, @WHOLE]")
    keys = ["way", "penalty", "seed"]
    counts = rows.groupby([*keys, "role"], sort=False).size().unstack("role", fill_value=0)
    wanted = ["previous token", "next token", "syntactic", "rare words", NO_ROLE]
    counts = counts.reindex(columns=wanted, fill_value=0)
    counts.insert(0, "left", rows.groupby(keys, sort=False).size())
    frame = counts.reset_index().sort_values(["way", "left"], ascending=[True, False])
    return frame.rename(columns={"penalty": "λ", NO_ROLE: "no role"}).rename_axis(columns=None)


def agreement(tables: Tables) -> pd.DataFrame:
    """One row per λ with gates of several seeds: share of the heads kept with one seed that another
    keeps too, mean over ordered pairs of seeds, and the same of as many heads at random."""
    kept = usual(tables["kept"]).query("way == @GATES")
    rows = []
    for penalty, own in kept.groupby("penalty"):
        wide = own.pivot(index="seed", columns=["layer", "head"], values="kept").astype(bool)
        pairs = [(a, b) for a, b in permutations(wide.to_numpy(), 2) if a.any()]
        if pairs:
            rows.append({"penalty": penalty, "left": words.span(wide.sum(axis=1)),
                         "same": np.mean([(a & b).sum() / a.sum() for a, b in pairs]),
                         "chance": np.mean([b.mean() for _, b in pairs])})  # fmt: skip
    return pd.DataFrame(rows, columns=["penalty", "left", "same", "chance"])


def agreement_table(tables: Tables) -> pd.DataFrame:
    """`agreement` as it is shown."""
    found = agreement(tables)
    return pd.DataFrame({
        "λ": found["penalty"].map(_number), "heads left": found["left"],
        "kept by another seed, too": found["same"].map(words.percent),
        "of as many at random": found["chance"].map(words.percent),
    })  # fmt: skip


def others(tables: Tables) -> pd.DataFrame:
    """One row per training of the other direction and of heads of cross-attention."""
    rows = tables["released"]
    first = (rows["model"] == rows["model"].iloc[0]) & (rows["gated"] == Kind.ENCODER)
    rows = rows[~first & (rows["way"] != WHOLE)]
    gap = zip(rows["difference"], rows["difference_low"], rows["difference_high"], strict=True)
    return pd.DataFrame({
        "model": rows["model"].replace(TITLES), "heads of": rows["gated"],
        "chosen": rows["way"].map(NAMES), "λ": rows["penalty"].map(_number),
        "left": rows["kept"].astype(str) + " of " + rows["of"].astype(str),
        "BLEU minus whole": [words.difference(*ends, digits=1) for ends in gap],
    })  # fmt: skip


def rivals_table(tables: Tables) -> pd.DataFrame:
    """One row per control: BLEU of the gates minus its own, with intervals and Holm's p."""
    rows = of_first(tables["rivals"]).sort_values(["way", "penalty", "seed"])
    gap = zip(rows["gap"], rows["low"], rows["high"], strict=True)
    return pd.DataFrame({
        "heads": rows["kept"], "beside": rows["way"].map(NAMES),
        "heads there": rows["kept_beside"], "seed": rows["seed"],
        "BLEU, gates": rows["bleu"].map("{:.1f}".format),
        "BLEU, beside": rows["bleu_beside"].map("{:.1f}".format),
        "gates minus it": [words.difference(*ends) for ends in gap],
        "p (Holm)": rows["p_holm"].map("{:.3f}".format),
    })  # fmt: skip


def tests_table(tables: Tables) -> pd.DataFrame:
    """Whether heads with a role are kept more often: per training and over all of them."""
    rows = of_first(tables["tests"])
    return pd.DataFrame({
        "trainings": rows["test"], "λ": rows["penalty"].map(_number), "seed": rows["seed"].map(
            lambda seed: "" if pd.isna(seed) else str(int(seed))),
        "heads left": rows["kept"].map(_number),
        "with a role kept": [f"{words.percent(each)}" for each in rows["with_role"]],
        "others kept": [f"{words.percent(each)}" for each in rows["without"]],
        "p": rows["p"].map("{:.4f}".format),
        "p (Holm)": ["" if pd.isna(p) else f"{p:.4f}" for p in rows["p_holm"]],
    })  # fmt: skip


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:g}"


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: BLEU minus the whole model's, by heads kept."""
    rows = tables["points"].query("arm in ['gates', 'random heads']").dropna(subset="to_further")
    gap = zip(rows["to_further"], rows["to_further_low"], rows["to_further_high"], strict=True)
    return pd.DataFrame({
        "model": rows["model"].map(words.model), "heads": rows["arm"],
        "λ": rows["penalty"].map(_number),
        "left": rows["kept"], "of": rows["of"],
        "BLEU minus whole": [words.difference(*ends) for ends in gap],
    })  # fmt: skip


def near(rows: pd.DataFrame, left: int) -> pd.Series:
    """The row of the first seed's gates whose number of heads left is nearest."""
    mine = usual(rows).query("way == @GATES and seed == 0")
    return mine.loc[(mine["kept"] - left).abs().idxmin()]


def roles_kept(tables: Tables, penalty: float) -> float:
    """Share of the heads that had a role which gates at one λ keep; the least of the seeds."""
    kept = usual(tables["kept"]).query("way == @GATES and penalty == @penalty")
    merged = kept.merge(tables["heads"][["model", "layer", "head", "role"]],
                        on=["model", "layer", "head"])  # fmt: skip
    return float(merged.query("role != @NO_ROLE").groupby("seed")["kept"].mean().min())


def change(tables: Tables, penalty: float) -> Summary:
    """BLEU of the gates at one λ minus the whole model's, over seeds."""
    rows = usual(tables["released"]).query("way == @GATES and penalty == @penalty")
    return over_seeds(rows["difference"])


def layers_with_roles(tables: Tables) -> int:
    """In how many layers the first student has a head with a role."""
    heads = tables["heads"]
    first = heads[heads["model"] == heads["model"].iloc[0]]
    return first.query("role != @NO_ROLE")["layer"].nunique()
