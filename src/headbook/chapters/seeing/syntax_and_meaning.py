"""Page 55: which layers know what (Tenney, Das and Pavlick 2019), and how far heads look."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._digits import TRAINED, UNTRAINED, distances
from headbook.chapters.seeing._properties import (
    IDENTITY,
    PAIRS,
    PARAPHRASE,
    PROPERTIES,
    RATED,
    RELATION,
    SENTIMENT,
    TAG,
    Profile,
    profiles,
    sentences,
)
from headbook.chapters.tables import claim_row, claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.claims.gates import RELEASED as CORPUS
from headbook.heads.nulls import Null, without_knowledge
from headbook.layers.gravity import centre, expected
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import UserError

NUMBER = 55
TITLE = "Syntax early, meaning late?"
WORK = "tenney2019"
KEYS = ("model", "weights", "sentences", "property", "seed")

RELEASED, REDRAWN = "released", "drawn anew"
SHOWN = {RELEASED: "trained"}
"""Weights as tables name them: models of our own are not released."""
DIGITS = "digits"
NO_CENTRE = "present: with weights drawn anew, no layer exceeds the control task"


@dataclass(frozen=True)
class Parameters:
    """Models; a treebank and how many of its sentences; whether sentiment, paraphrases and networks
    drawn anew are measured too; and how many small vision transformers are trained."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    text: str = "ewt-sample"
    sentences: int = 300
    whole: bool = False
    digits: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Every property by layer, where its centre of gravity lies, attention distances, claims."""
    if parameters.sentences < 60:
        raise UserError(f"sentences is {parameters.sentences}; give 60 or more")
    of = sentences(parameters.text, parameters.sentences, meaning=parameters.whole)
    layers, centres, claims = [], [], []
    for name in parameters.models:
        model = load(name)
        found = {RELEASED: list(profiles(model, of))}
        if parameters.whole:
            with without_knowledge(model.network, Null.DRAWN, 0):
                found[REDRAWN] = list(profiles(model, of))
            claims += _claims(name, found)
        for weights, own in found.items():
            labels = {"model": name, "weights": weights, "sentences": len(of.trees)}
            layers += [{**labels, **row} for each in own for row in _by_layer(each)]
            centres += [{**labels, **_centre(each)} for each in own]
    tables = {"layers": pd.DataFrame(layers), "centres": pd.DataFrame(centres)}
    if parameters.digits:
        tables["digits"] = distances(parameters.digits)
        claims += _digit_claims(tables["digits"])
    return {**tables, "claims": claims_table(claims)}


def _by_layer(profile: Profile) -> Iterator[dict[str, object]]:
    for layer, (found, drawn) in enumerate(zip(profile.found, profile.control, strict=True)):
        value, low, high = interval(found)
        yield {"property": profile.name, "layer": layer, "value": value, "low": low, "high": high,
               "control": float(drawn[0])}  # fmt: skip


def _centre(profile: Profile) -> dict[str, object]:
    """Centres of gravity above the control task and above chance, and the layer where most is
    gained, each a share of the depth; the layer that is most above the control task."""
    measured = {"": centre(profile.above), "chance_": centre(profile.above_chance),
                "gained_": expected(np.stack(profile.found, axis=1))}  # fmt: skip
    columns: dict[str, object] = {"property": profile.name}
    for name, replicates in measured.items():
        value, low, high = interval(replicates)
        columns |= {f"{name}value": value, f"{name}low": low, f"{name}high": high}
    return columns | {"best": int(profile.above[0].argmax())}


def _claims(model: str, found: dict[str, list[Profile]]) -> Iterator[dict[str, object]]:
    centres = {weights: {each.name: centre(each.above) for each in own}
               for weights, own in found.items()}  # fmt: skip
    late = {
        weights: (own[SENTIMENT] + own[PARAPHRASE] - own[TAG] - own[RELATION]) / 2
        for weights, own in centres.items()
    }
    known = next(each for each in found[RELEASED] if each.name == IDENTITY).above
    values = {
        "pipeline-relations-after-tags": centres[RELEASED][RELATION] - centres[RELEASED][TAG],
        "pipeline-meaning-after-syntax": late[RELEASED],
        "pipeline-order-learnt": late[RELEASED] - late[REDRAWN],
        "pipeline-identity-fades": known[:, -1] - known[:, 0],
    }
    for claim, replicates in values.items():
        value, low, high = interval(replicates)
        closed = NO_CENTRE if np.isnan(value) else NONE
        yield released_claim(claim, model, value, low, high, corpus=CORPUS, closed=closed)


def _digit_claims(rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    trained = rows[rows["state"] == TRAINED]
    by_layer = trained.groupby(["seed", "layer"])["pixels"].mean().unstack()
    for seed, own in by_layer.iterrows():
        labels = {"model": f"pixel encoder s{seed}", "corpus": DIGITS, "target": "", "seed": seed}
        grown = own.iloc[-1] - own.iloc[0]
        yield claim_row("digits-distance-grows", labels, grown) | {"closed": NONE}


def by_property(tables: Tables) -> pd.DataFrame:
    """Centres of gravity, one row per property and model, the redrawn network's beside."""
    rows = tables["centres"]
    drawn = rows[rows["weights"] == REDRAWN].set_index(["model", "property"])["value"]
    rows = rows[rows["weights"] == RELEASED].copy()
    keys = zip(rows["model"], rows["property"], strict=True)
    rows["redrawn"] = [drawn.get(key, np.nan) for key in keys]
    return _in_order(rows).assign(model=rows["model"].replace(words.TITLES))


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by their property, as PROPERTIES has them."""
    order = {name: place for place, name in enumerate(PROPERTIES)}
    return rows.sort_values("property", key=lambda names: names.map(order), kind="stable")


def through_layers(tables: Tables, model: str, weights: str = RELEASED) -> pd.DataFrame:
    """Values minus those of the control task: property, layer, value."""
    rows = tables["layers"]
    rows = rows[(rows["model"] == model) & (rows["weights"] == weights)]
    rows = rows.assign(value=rows["value"] - rows["control"])
    return _in_order(rows)[["property", "layer", "value"]]


def layer_table(tables: Tables) -> pd.DataFrame:
    """Found / control in per cent at the embedding, at the best layer and at the last."""
    lines = []
    for (model, weights, name), rows in tables["layers"].groupby(
        ["model", "weights", "property"], sort=False
    ):
        rows = rows.set_index("layer")
        best = (rows["value"] - rows["control"]).idxmax()
        cells = [f"{100 * rows['value'][at]:.0f} / {100 * rows['control'][at]:.0f}"
                 for at in (0, best, rows.index.max())]  # fmt: skip
        lines.append({"model": words.TITLES.get(model, model),
                      "weights": SHOWN.get(weights, weights),
                      "property": name, "embedding": cells[0], "best layer": f"{cells[1]} ({best})",
                      "last layer": cells[2]})  # fmt: skip
    return pd.DataFrame(lines)


def digit_layers(tables: Tables) -> pd.DataFrame:
    """Attention distance by layer and state: mean over heads and seeds, range over seeds.

    Layers are names, so that an axis has no place between them.
    """
    rows = tables["digits"].groupby(["state", "layer", "seed"], sort=False)["pixels"].mean()
    found = rows.groupby(["state", "layer"], sort=False).agg(["mean", "min", "max"])
    found = found.reset_index().rename(columns={"mean": "value", "min": "low", "max": "high"})
    return found.assign(layer=found["layer"].astype(str))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: centres, differences of the claims, distances in pixels."""
    found: Facts = {"sentences": words.count(tables["centres"]["sentences"].iloc[0])}
    found |= {"rated": words.count(RATED), "pairs": words.count(PAIRS)}
    for row in tables["centres"].to_dict("records"):
        key = words.key(row["model"], row["property"], *([REDRAWN] * (row["weights"] == REDRAWN)))
        found[key] = f"{row['value']:.2f}"
        found[f"{key}_chance"] = f"{row['chance_value']:.2f}"
        found[f"{key}_gained"] = f"{row['gained_value']:.2f}"
        found[f"{key}_best"] = str(int(row["best"]))
    for row in tables["layers"].to_dict("records"):
        if row["weights"] == RELEASED:
            key = words.key(row["model"], row["property"], "at") + str(row["layer"])
            found[key] = words.percent(row["value"])
            found[f"{key}_estimate"] = words.estimate(row["value"], row["low"], row["high"])
    for row in tables["claims"].to_dict("records"):
        if row["corpus"] == CORPUS:
            key = words.key(row["model"], row["claim"].removeprefix("pipeline-"))
            found[key] = words.difference(row["value"], row["low"], row["high"])
            found[f"{key}_short"] = words.signed(row["value"])
    return found | (_of_digits(tables) if "digits" in tables else {})


def _of_digits(tables: Tables) -> Facts:
    rows = digit_layers(tables).set_index(["state", "layer"])["value"]
    last = rows.index.get_level_values("layer").max()
    accuracy = tables["digits"].query("state == @TRAINED")["accuracy"]
    found: Facts = {"digit_seeds": str(tables["digits"]["seed"].nunique()),
                    "digit_accuracy": words.percent(accuracy.mean())}  # fmt: skip
    for state in (TRAINED, UNTRAINED):
        found |= {f"{state}_first": f"{rows[state, '1']:.1f}",
                  f"{state}_last": f"{rows[state, last]:.1f}"}  # fmt: skip
    return found
