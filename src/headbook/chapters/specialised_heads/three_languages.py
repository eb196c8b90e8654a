"""Page 15: the roles of heads by language (Voita et al. 2019, Figure 2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads._released import (
    PARALLEL,
    Reading,
    in_their_language,
)
from headbook.chapters.specialised_heads._roles import (
    NAMES,
    NEXT,
    PAPER_ROLES,
    PREVIOUS,
    RAREST,
    THRESHOLDS,
    Roles,
    columns_of,
    null_measures,
    paper_accuracies,
)
from headbook.chapters.tables import claim_row, loaded_labels
from headbook.chapters.words import TITLES
from headbook.claims.ledger import load as ledger
from headbook.claims.verdict import COLUMNS
from headbook.heads.nulls import null_values
from headbook.runs.store import Store
from headbook.statistics import interval

NUMBER = 15
TITLE = "Do the same roles appear for other languages?"
WORK = "voita2019"
KEYS = ("model", "text", "sentences", "nulls")

ROLES = (PREVIOUS, NEXT, *NAMES, RAREST)
NULL_SENTENCES = 300


@dataclass(frozen=True)
class Parameters:
    """Released models, each measured on those texts that are in its language; null networks per
    model and text (0: none). `sentences` of each text at most."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None
    nulls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """The best head of every role, all heads with their roles, counts, nulls, claims."""
    found = [
        Roles.of(each)
        for each in in_their_language(parameters.models, parameters.texts, parameters.sentences)
    ]
    tables = {
        "released": pd.concat([each.best() for each in found], ignore_index=True),
        "role_heads": pd.concat([each.heads() for each in found], ignore_index=True),
        "role_counts": pd.DataFrame([row for each in found for row in each.counts()]),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)], columns=COLUMNS),
    }
    if parameters.nulls:
        rows = [_nulls(each.reading.first(NULL_SENTENCES), parameters.nulls) for each in found]
        tables["nulls"] = pd.concat(rows, ignore_index=True)
    return tables


def _claims(roles: Roles) -> Iterator[dict[str, object]]:
    """Translation models on parallel text. How many heads have a role is not compared between
    them: the paper's models all read English, these do not."""
    model = roles.reading.model
    if roles.reading.text not in PARALLEL or not model.languages[1]:
        return
    labels = loaded_labels(model.name, model.languages[1])
    functions = torch.stack([each.any(-1).any(-1) for each in roles.held.values()]).sum(0)
    tracked = (roles.margins >= THRESHOLDS.syntactic_margin).sum(-1)
    for claim, values in (
        ("voita-f2-roles-in-every-language", functions.double()),
        ("voita-f4-syntax-in-every-language", tracked.double()),
    ):
        yield claim_row(claim, labels, *interval(values))


def _nulls(reading: Reading, count: int) -> pd.DataFrame:
    """The best of as many heads in networks whose weights were permuted or drawn anew."""
    network = reading.model.network
    found = null_values(network, reading.batches, partial(null_measures, reading), count)
    places = [(role, *columns_of(role)) for role in ROLES]
    largest = {role: float(found.largest(measure)[at]) for role, measure, at in places}
    frame = pd.DataFrame({"role": list(largest), "largest": list(largest.values())})
    return frame.assign(nulls=count, **reading.labels)


def beside(tables: Tables) -> pd.DataFrame:
    """Rows of the figure: the translation models on the same sentences in their language, any
    other model on the English ones, and the paper's accuracies for Russian in the first's rows.

    Of a run without these texts, the first text of each model.
    """
    released = tables["released"]
    if set(released["text"]) & set(PARALLEL):
        released = released[released["text"].isin(PARALLEL)]
    first = released.drop_duplicates("model").set_index("model")["text"]
    frame = released[released["text"] == released["model"].map(first)].copy()
    known = paper_accuracies().query("text == 'WMT en-ru'").set_index("relation")["value"]
    frame["paper"] = frame["role"].map(known).where(frame["model"] == frame["model"].iloc[0])
    return frame.assign(model=frame["model"].replace(TITLES))


def counted(tables: Tables) -> pd.DataFrame:
    """Heads with each role, one row per model: the paper's, released ones, and those trained here
    (their mean)."""
    rows = PAPER_ROLES.assign(model="Voita et al., English → " + PAPER_ROLES["target"])
    wide = (
        tables["role_counts"]
        .query("text in @PARALLEL")
        .pivot(index=["model", "heads"], columns="role", values="count")
    )
    frames = [rows, wide.reset_index().replace({"model": TITLES})]
    if "counts" in tables:
        young = tables["counts"].query("update == 'best' and text == 'held-out'")
        mean = young.groupby("role")["heads_with_role"].mean()
        frames.append(pd.DataFrame([{
            "model": f"trained here (mean of {young['model'].nunique()})",
            **{role: mean.get(role, 0.0) for role in ("positional", "syntactic", "rare")},
            "heads": "48" if young["layers"].eq(6).all() else "",
        }]))  # fmt: skip
    shown = ["model", "positional", "syntactic", "rare", "heads"]
    frame = pd.concat(frames, ignore_index=True)[shown]
    for role in shown[1:4]:
        frame[role] = frame[role].map("{:g}".format)
    return frame


def summary(tables: Tables) -> pd.DataFrame:
    """Best head and its accuracy per role, a column per model and text, in per cent."""
    rows = tables["released"]
    cells = rows.assign(
        column=rows["model"].replace(TITLES) + ", " + rows["text"],
        cell=[f"{words.head(row.layer, row.head)} {100 * row.value:.0f}"
              + ("" if pd.isna(row.baseline) else f" / {100 * row.baseline:.0f}")
              for row in rows.itertuples()],
    )  # fmt: skip
    wide = cells.pivot(index="role", columns="column", values="cell")
    return (
        wide.loc[list(ROLES), list(dict.fromkeys(cells["column"]))]
        .reset_index()
        .rename_axis(columns=None)
    )


def controls(tables: Tables) -> pd.DataFrame:
    """The best head of the two translation models, the best of the nulls, and the part-of-speech
    rule, in per cent: one row per role, a column per model."""
    rows = tables["released"].query("text in @PARALLEL and model.str.startswith('firefox')")
    keys = ["model", "text", "role"]
    rows = rows.merge(tables["nulls"][[*keys, "largest"]], on=keys)
    numbers = (rows[["value", "largest", "rule"]] * 100).map("{:.0f}".format).replace("nan", "–")
    rows = rows.assign(model=rows["model"].replace(TITLES), cell=numbers.agg(" / ".join, axis=1))
    wide = rows.pivot(index="role", columns="model", values="cell")
    return wide.loc[list(ROLES)].reset_index().rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by model and role: of the parallel text where it is there."""
    found: Facts = {}
    for row in beside(tables).to_dict("records"):
        key = f"{words.prefix(row['model'])}_{_key(row['role'])}"
        found[key] = words.estimate(row["value"], row["low"], row["high"])
        found[f"{key}_short"] = words.percent(row["value"])
        found[f"{key}_head"] = words.head(row["layer"], row["head"])
        if pd.notna(row["baseline"]):
            found[f"{key}_offset"] = words.percent(row["baseline"])
            found[f"{key}_over"] = words.points(row["over"]) if pd.notna(row["over"]) else ""
    counts = tables["role_counts"]
    for row in counts[counts["text"].isin(PARALLEL)].to_dict("records"):
        found[f"{words.prefix(row['model'])}_heads_{row['role']}"] = str(row["count"])
    found["paper_any"] = ", ".join(map(str, PAPER_ROLES["any"]))
    for row in paper_accuracies().query("text == 'WMT en-ru'").to_dict("records"):
        found[f"paper_{_key(row['relation'])}"] = words.percent(row["value"])
    found["paper_neighbour"] = f"{words.percent(THRESHOLDS.positional)} or more"
    known = ledger().claim("voita-f1a-rare-most-relevant").paper[-1]
    found["paper_rare"] = f"more than {words.percent(known.values[0])}"
    if "counts" in tables:
        young = tables["counts"].query("update == 'best' and role == 'any role'")
        found["trained_any"] = f"{young['heads_with_role'].mean():g}"
    if "nulls" in tables:
        nulls = tables["nulls"].query("text in @PARALLEL and model.str.startswith('firefox')")
        found["null_count"] = str(int(nulls["nulls"].iloc[0]))
        found["null"] = words.percent(nulls.query("role != @RAREST")["largest"].max())
    return found


def _key(role: str) -> str:
    return role.replace(" → ", "_").replace(" ", "_")
