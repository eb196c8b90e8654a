"""Page 11: confidence and roles of encoder heads (Voita et al. 2019, Figures 1b and 1c)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads._released import PARALLEL, Reading, in_their_language
from headbook.chapters.specialised_heads._role_claims import CONFIDENT, role_claims
from headbook.chapters.specialised_heads._roles import (
    NAMES,
    NEXT,
    ONE_OF_TWO,
    PAPER_ROLES,
    PREVIOUS,
    THRESHOLDS,
    Roles,
    null_measures,
)
from headbook.chapters.tables import claims_table
from headbook.chapters.words import TITLES
from headbook.claims.ledger import load as ledger
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure
from headbook.heads.nulls import null_values
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import Place, at_place
from headbook.heads.random_head import random_heads
from headbook.heads.recording import Shared
from headbook.runs.store import Store
from headbook.types import Kind

NUMBER = 11
TITLE = "Which heads are sharp, and what do they do?"
WORK = "voita2019"
KEYS = ("model", "text", "sentences", "nulls")

SHARP = 0.50
"""Heads of this confidence have their most frequent place written into the map."""
SCORES = {
    "confidence": "confidence", "previous": PREVIOUS, "next": NEXT, "own": "own token",
    "other": "an offset farther away", "margin": "best relation over its offset",
    "rare": "two rarest tokens",
}  # fmt: skip
"""Scores of a head and their names in tables."""
WITH_ROLE = "heads with a role"
"""The row of a table of nulls that counts them."""
NULL_SENTENCES = 300
PAPER = (
    (0.31, 0.36, 0.33, 0.33, 0.34, 0.28, 0.27, 0.27),
    (0.81, 0.82, 0.43, 0.36, 0.36, 0.43, 0.41, 0.27),
    (0.82, 0.72, 0.36, 0.22, 0.28, 0.25, 0.24, 0.26),
    (0.64, 0.45, 0.43, 0.37, 0.28, 0.32, 0.28, 0.27),
    (0.78, 0.22, 0.24, 0.25, 0.28, 0.28, 0.31, 0.26),
    (0.36, 0.29, 0.38, 0.33, 0.26, 0.27, 0.28, 0.25),
)
"""Figure 1b, English to Russian, OpenSubtitles: read off, by layer; columns are sorted there."""
PAPER_MARKS = {(1, 1): "r", (2, 1): "−1", (2, 2): "+1", (3, 1): "−1", (3, 2): "+1", (5, 1): "−1"}
"""Figure 1c: its positional heads and its rare-word head."""


@dataclass(frozen=True)
class Parameters:
    """Released models, each measured on those texts that are in its language; null networks per
    model and text (0: none). `sentences` of each text at most."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None
    nulls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Every head with its scores and role, the roles' counts and best heads, nulls, claims."""
    readings = in_their_language(parameters.models, parameters.texts, parameters.sentences)
    found = [Roles.of(each) for each in readings]
    tables = {
        "heads": pd.concat([_heads(each) for each in found], ignore_index=True),
        "best": pd.concat([each.best() for each in found], ignore_index=True),
        "role_counts": pd.DataFrame([row for each in found for row in _counts(each)]),
    }
    if parameters.nulls:
        rows = [_nulls(each.reading.first(NULL_SENTENCES), parameters.nulls) for each in found]
        tables["nulls"] = pd.concat(rows, ignore_index=True)
    claims = [row for each in found for row in role_claims(each)]
    tables["claims"] = claims_table(claims)
    return tables


def _heads(roles: Roles) -> pd.DataFrame:
    """One row per head: as `Roles.heads`, with the interval of confidence and farther offsets."""
    low, high = roles.sums["confidence"].interval()
    shares = at_place(roles.sums["positional"].ratio(), Place.OTHER)
    other, index = shares.max(-1)
    offsets = torch.tensor(Place.OTHER.offsets(roles.sums["positional"].ratio().shape[-1] // 2))
    columns = {"confidence_low": low, "confidence_high": high, "other": other,
               "other_offset": offsets[index]}  # fmt: skip
    return roles.heads().assign(**{name: each.flatten().tolist() for name, each in columns.items()})


def _counts(roles: Roles) -> Iterator[dict[str, object]]:
    """Heads with each role: on all sentences, on the first half, and of these on the second."""
    halves = [roles.held_on(half) for half in (0, 1)]
    halves = [held | {"any": torch.stack(list(held.values())).any(0)} for held in halves]
    for row in roles.counts():
        first, second = (held[row["role"]][0] for held in halves)
        yield row | {"first_half": int(first.sum()), "again": int((first & second).sum())}


# ------------------------------------------------------------------ nulls


def _nulls(reading: Reading, count: int) -> pd.DataFrame:
    """The largest score of any head, in null networks and in as many random heads."""
    offsets = reading.sums({"offsets": OffsetShare(reading.trees, replicates=0)})["offsets"]
    baseline = offsets.ratio().nan_to_num(-1).amax(0)
    make = partial(_null_measures, reading)
    found = null_values(reading.model.network, reading.batches, make, count)
    shape = found.values["confidence"].shape[1:]
    random = {name: each[None] for name, each in _random(reading, *shape).items()}
    frame = pd.DataFrame({"largest": _largest(found.values, baseline),
                          "random": _largest(random, baseline)})  # fmt: skip
    frame = frame.rename_axis("score").reset_index()
    return frame.assign(nulls=count, heads=shape.numel(), **reading.labels)


def _null_measures(reading: Reading) -> dict[str, HeadMeasure]:
    return {"confidence": Confidence(Kind.ENCODER, replicates=0), **null_measures(reading)}


def _random(reading: Reading, layers: int, heads: int) -> dict[str, Tensor]:
    """The measures of heads with random weights."""
    measures = _null_measures(reading)
    for batch in reading.batches:
        tape = Shared(random_heads(batch, Kind.ENCODER, layers, heads))
        for measure in measures.values():
            measure.update(tape, batch)
    return {name: measure.compute() for name, measure in measures.items()}


def _largest(
    values: Mapping[str, Float[Tensor, "network layer head ..."]],
    baseline: Float[Tensor, " column"],
) -> dict[str, float]:
    """The largest of each score over heads and networks, and of how many heads have a role."""
    reach = values["positional"].shape[-1] // 2
    scores = {
        "confidence": values["confidence"],
        "previous": values["positional"][..., reach - 1],
        "next": values["positional"][..., reach + 1],
        "own": values["positional"][..., reach],
        "other": at_place(values["positional"], Place.OTHER).amax(-1),
        "margin": (values["syntactic"] - baseline).nan_to_num(nan=-torch.inf).amax(-1),
        "rare": values["rare"][..., ONE_OF_TWO],
    }
    held = (
        (torch.maximum(scores["previous"], scores["next"]) >= THRESHOLDS.positional)
        | (scores["margin"] >= THRESHOLDS.syntactic_margin)
        | (scores["rare"] >= THRESHOLDS.rare)
    )
    largest = {name: float(each.amax()) for name, each in scores.items()}
    return largest | {WITH_ROLE: float(held.sum((1, 2)).amax())}


# ------------------------------------------------------------------ what the page shows


def shown(tables: Tables, model: str) -> pd.DataFrame:
    """The heads of a model on parallel text, or of a run without it on its first text."""
    rows = tables["heads"].query("model == @model")
    known = [text for text in dict.fromkeys(rows["text"]) if text in PARALLEL]
    text = known[0] if known else rows["text"].iloc[0]
    rows = rows[rows["text"] == text]
    return rows.assign(mark=[_mark(row) for row in rows.to_dict("records")])


def paper() -> pd.DataFrame:
    """The paper's confidences as a map, columns sorted by relevance."""
    rows = [
        {"layer": layer, "head": head, "confidence": value,
         "mark": PAPER_MARKS.get((layer, head), "")}
        for layer, values in enumerate(PAPER, start=1)
        for head, value in enumerate(values, start=1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def sharpest(tables: Tables, count: int = 8) -> pd.DataFrame:
    """The most confident heads of every model, in per cent, with their places and relations."""
    frames = []
    for model in dict.fromkeys(tables["heads"]["model"]):
        rows = shown(tables, model).nlargest(count, "confidence")
        frames.append(pd.DataFrame({
            "model": TITLES.get(model, model),
            "head": [words.head(*pair) for pair in zip(rows["layer"], rows["head"], strict=True)],
            "confidence": [words.estimate(*each) for each in rows[
                ["confidence", "confidence_low", "confidence_high"]].to_numpy()],
            **{name: rows[column].map(words.percent)
               for column, name in SCORES.items() if column in ("previous", "next", "own")},
            "best farther offset": [
                f"{words.percent(row.other)} ({row.other_offset:+d})".replace("-", "−")
                for row in rows.itertuples()],
            "best relation over its offset": rows["margin"].map(words.points)
            + " (" + rows["relation"] + ")",
            "role": rows["role"].replace("none", "–"),
        }))  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def counted(tables: Tables) -> pd.DataFrame:
    """Heads with each role on all sentences, and of those of one half that have it on the other."""
    rows = tables["role_counts"]
    rows = rows.assign(
        column=rows["model"].replace(TITLES) + ", " + rows["text"],
        cell=rows["count"].astype(str) + " / " + rows["first_half"].astype(str) + " / "
        + rows["again"].astype(str),
    )  # fmt: skip
    wide = rows.pivot(index="column", columns="role", values="cell")
    wide = wide.loc[list(dict.fromkeys(rows["column"])), list(dict.fromkeys(rows["role"]))]
    return wide.rename_axis(index="model and text", columns=None).reset_index()


def controls(tables: Tables) -> pd.DataFrame:
    """The sharpest head / the best of the nulls / of as many random heads, per score and model."""
    nulls = tables["nulls"].query("text in @PARALLEL")
    cells = {}
    for model, rows in nulls.groupby("model", sort=False):
        own = shown(tables, model)
        rows = rows[rows["text"] == own["text"].iloc[0]].set_index("score")
        title = TITLES.get(model, model)
        cells[title] = {
            name: _of_three(100 * own[score].max(), 100 * rows.loc[score, ["largest", "random"]])
            for score, name in SCORES.items()
        }
        cells[title][WITH_ROLE] = _of_three((own["role"] != "none").sum(), rows.loc[WITH_ROLE])
    return pd.DataFrame(cells).rename_axis("largest of").reset_index()


def _of_three(real: float | int, row: pd.Series) -> str:
    cells = (f"{round(float(each))}" for each in (real, row["largest"], row["random"]))
    return " / ".join(cells).replace("-", "−")


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: the sharpest head of each, and the one that is most at one offset.

    Their tables name a head's share at its best offset alone, so the largest of a model is known.
    """
    best = tables["scores"].query("kind == 'encoder' and update == 'best'")
    places = [str(place) for place in Place]
    rows = []
    for model, own in best.groupby("model", sort=False):
        top = own.loc[own["confidence"].idxmax()]
        steady = own.loc[own[places].max(axis=1).idxmax()]
        place = steady[places].astype(float).idxmax()
        rows.append({
            "model": model, "mean": own["confidence"].mean(), "confidence": top["confidence"],
            "head": words.head(*map(int, top[["layer", "head"]])),
            "confident": (own["confidence"] >= CONFIDENT).mean(),
            "steady": words.head(*map(int, steady[["layer", "head"]])), "layer": steady["layer"],
            "place": place, "share": steady[place],
        })  # fmt: skip
    return pd.DataFrame(rows)


def young_table(tables: Tables) -> pd.DataFrame:
    """The same for readers."""
    rows = young(tables)
    return pd.DataFrame({
        "trained here": rows["model"].map(words.model),
        "mean confidence": rows["mean"].map(words.percent),
        "sharpest": rows["head"] + " " + rows["confidence"].map(words.percent),
        "most at one offset": rows["steady"] + " " + rows["share"].map(words.percent),
        "place": rows["place"].replace({"own": "own token", "other": "farther away"}),
    })  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by model: of the parallel text where it is there."""
    found: Facts = {}
    for model in dict.fromkeys(tables["heads"]["model"]):
        key, rows = words.prefix(model), shown(tables, model)
        for place, row in enumerate(rows.nlargest(3, "confidence").to_dict("records"), start=1):
            column = _place(row)
            found[f"{key}_head_{place}"] = words.head(row["layer"], row["head"])
            found[f"{key}_confidence_{place}"] = words.percent(row["confidence"])
            found[f"{key}_confidence_{place}_estimate"] = words.estimate(
                row["confidence"], row["confidence_low"], row["confidence_high"]
            )
            found[f"{key}_place_{place}"] = SCORES[column]
            found[f"{key}_share_{place}"] = words.percent(row[column])
        held = rows[rows["role"] != "none"]
        syntactic = held[held["role"] == "syntactic"]["confidence"]
        found[f"{key}_roles"] = str(len(held))
        found[f"{key}_heads"] = str(len(rows))
        found[f"{key}_confident"] = words.percent((rows["confidence"] >= CONFIDENT).mean())
        found[f"{key}_mean"] = words.percent(rows["confidence"].mean())
        found[f"{key}_syntactic"] = words.percent(syntactic.max())
        found[f"{key}_sentences"] = words.count(rows["sentences"].iloc[0])
    known = ledger()
    neighbours = known.claim("voita-f1b-positional-confident").paper[-1].values
    found["paper_sharpest"] = words.percent(max(neighbours))
    found["paper_least"] = words.percent(min(neighbours))
    found["paper_confident"] = words.percent(
        known.claim("voita-f1b-few-confident").paper[0].values[0]
    )
    found["paper_roles"] = str(PAPER_ROLES["any"].iloc[0])
    found["paper_mean"] = words.percent(paper()["confidence"].mean())
    if "scores" in tables:
        here = young(tables)
        own = here.query("place == 'own' and layer == 1")
        found |= {
            "young_models": str(len(here)), "young_own": str(len(own)),
            "young_share": f"{words.percent(own['share'].min())} to "
            f"{words.percent(own['share'].max())}",
            "young_sharpest": f"{words.percent(here['confidence'].min())} to "
            f"{words.percent(here['confidence'].max())}",
            "young_confident": words.percent(here["confident"].mean()),
            "young_mean": words.percent(here["mean"].mean()),
            "young_roles": str(int((tables["roles"]["update"].astype(str) == "best").sum())),
        }  # fmt: skip
    if "nulls" in tables and len(nulls := tables["nulls"].query("text in @PARALLEL")):
        nulls = nulls.set_index("score")
        found["null_count"] = str(int(nulls["nulls"].iloc[0]))
        found["null_confidence"] = words.percent(nulls.loc["confidence", "largest"].max())
    return found


_MARKS = {
    PREVIOUS: "−1", NEXT: "+1", "rare words": "rare",
    **dict(zip(NAMES, ("v→s", "s→v", "v→o", "o→v", "n→a", "a→n", "v→d", "d→v"), strict=True)),
}  # fmt: skip
_NEAR = {"previous": "(−1)", "next": "(+1)", "own": "(0)"}


def _mark(row: Mapping) -> str:
    """A head's role in short; for a sharp one without, its most frequent place in brackets."""
    if row["role"] != "none":
        return _MARKS[row["relation"] if row["role"] == "syntactic" else row["role"]]
    if row["confidence"] < SHARP:
        return ""
    place = _place(row)
    return _NEAR.get(place, f"({row['other_offset']:+d})".replace("-", "−"))


def _place(row: Mapping) -> str:
    """The column of the offset that the head points at most."""
    return max(("previous", "next", "own", "other"), key=lambda name: row[name])
