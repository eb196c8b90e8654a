"""Page 40: the query-key spaces of a layer's heads, alone and together.

Cordonnier et al. 2020, section 3 and Figure 1, which the seed article's third insight rests on.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.catalogue import is_named, run
from headbook.artefacts.model import ModelRun
from headbook.artefacts.trained import folder_of
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.heads.query_key import dimensions, energy, spectra
from headbook.looking.load import load, untrained
from headbook.looking.weights import QueryKey, query_key
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.types import Kind

NUMBER = 40
TITLE = "Do heads share a query–key space?"
WORK = "cordonnier2020"
KEYS = ("model",)

THIRD = 1 / 3
"""Of the dimensions: with so many the paper's Figure 1 has nearly all energy."""
SHARES = np.linspace(0, 1, 33)
"""Shares of the dimensions at which the curves are read."""
RESAMPLES = 2000
DRAWS = 5
"""Random projections per layer."""
UNTRAINED = ", untrained"
"""Behind the name of a model trained here: the same before its first update."""
TRAINED = {"model": str, "width": int, "updates": int, "validation_nats": float, "bleu": float}
BY_WIDTH = ("multi30k-de-64", "multi30k-de-128-short", "multi30k-de-256-short")
"""Translation models that differ in width alone."""


@dataclass(frozen=True)
class Parameters:
    """Released models, or any that `hb.load` reads."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt", "firefox-pt-en")


def compute(parameters: Parameters, store: Store) -> Tables:
    """Curves of cumulative energy, dimensions per layer and per head, and claims.

    Of models trained here also the layers before the first update, and how well they translate.
    """
    curves, layers, heads = [], [], []
    for name in parameters.models:
        for block in query_key(load(name)):
            alone, together = spectra(block.queries, block.keys)
            random, turned = random_spectra(block), turned_spectrum(block)
            labels = {"model": name, "kind": str(block.kind), "layer": block.layer + 1}
            layers.append(labels | _layer(alone, together, random, turned))
            counts = enumerate(dimensions(alone).tolist(), start=1)
            heads += [labels | {"head": head, "dimensions": count} for head, count in counts]
            curves += [labels | row for row in _curves(alone, together, random, turned)]
        layers += _untrained(name) if is_named(name) else []
    mean = pd.DataFrame(curves).groupby(["model", "kind", "of", "share"], sort=False)["energy"]
    tables = {
        "curves": mean.agg(["mean", "min", "max"]).reset_index(),
        "layers": pd.DataFrame(layers),
        "heads": pd.DataFrame(heads),
        "trained": pd.DataFrame(
            [row for name in parameters.models for row in _trained(name, store)], columns=[*TRAINED]
        ).astype(TRAINED),  # where it is empty, too
    }
    return {**tables, "claims": claims(tables["layers"])}


def _untrained(name: str) -> list[dict[str, object]]:
    """The layers of a model trained here before its first update."""
    rows = []
    for block in query_key(untrained(name)):
        found = (*spectra(block.queries, block.keys), random_spectra(block), turned_spectrum(block))
        labels = {"model": name + UNTRAINED, "kind": str(block.kind), "layer": block.layer + 1}
        rows.append(labels | _layer(*found))
    return rows


def _trained(name: str, store: Store) -> Iterator[dict[str, object]]:
    """Width, updates, best validation loss and BLEU of a translation model in the store."""
    made = run(name) if is_named(name) else None
    folder = folder_of(made, store) if isinstance(made, ModelRun) else None
    if folder:
        losses = pd.read_csv(folder / "curve.csv")["valid_loss_nats"]
        yield {"model": name, "width": made.size.width, "updates": made.training.updates,
               "validation_nats": losses.min(),
               "bleu": pd.read_csv(folder / "bleu.csv")["score"].iloc[0]}  # fmt: skip


def random_spectra(block: QueryKey) -> tuple[Tensor, Tensor]:
    """The same of independent normal entries, mean over draws: rank alone bends these curves."""
    return _random_spectra(block.layer, tuple(block.queries.shape))


@cache
def _random_spectra(layer: int, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(layer)
    shape = (DRAWS, *shape)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)]
    pairs = [spectra(queries, keys) for queries, keys in zip(*drawn, strict=True)]
    alone, together = (torch.stack(each).mean(0) for each in zip(*pairs, strict=True))
    return alone, together


def turned_spectrum(block: QueryKey) -> Tensor:
    """Of all heads, each turned at random: its own spectrum stays, what it shares goes.

    Queries and keys of every head are multiplied by orthogonal matrices of their own; one draw.
    """
    generator = torch.Generator().manual_seed(block.layer)
    heads, width, _ = block.queries.shape
    turned = []
    for weights in (block.queries, block.keys):
        drawn = torch.randn(heads, width, width, generator=generator, dtype=torch.float64)
        turned.append(torch.linalg.qr(drawn).Q @ weights.double())
    return spectra(*turned)[1]


def _layer(
    alone: Tensor, together: Tensor, random: tuple[Tensor, Tensor], turned: Tensor
) -> dict[str, float | int]:
    """Dimensions that hold nine tenths of the energy, as shares of those there are."""
    of_head, of_all = alone.shape[-1], together.shape[-1]
    return {
        "heads": alone.shape[0], "head_width": of_head, "rank": of_all,
        "alone": float(dimensions(alone).mean() / of_head),
        "together": float(dimensions(together) / of_all),
        "random_alone": float(dimensions(random[0]).mean() / of_head),
        "random_together": float(dimensions(random[1]) / of_all),
        "turned_together": float(dimensions(turned) / of_all),
        "third": _at(together, THIRD), "random_third": _at(random[1], THIRD),
    }  # fmt: skip


def _curves(
    alone: Tensor, together: Tensor, random: tuple[Tensor, Tensor], turned: Tensor
) -> Iterator[dict[str, object]]:
    """Cumulative energy at the same shares of the dimensions, whatever their number."""
    spectra_by_name = {
        "one head": alone, "all heads together": together[None],
        "all heads, random": random[1][None], "all heads, each turned": turned[None],
    }  # fmt: skip
    for name, values in spectra_by_name.items():
        for share in SHARES:
            found = np.mean([_at(each, share) for each in values])
            yield {"of": name, "share": float(share), "energy": float(found)}


def _at(values: Tensor, share: float) -> float:
    """The energy of the largest `share` of the values, linear between whole numbers of them."""
    curve = np.concatenate([[0.0], energy(values).numpy()])
    return float(np.interp(share, np.linspace(0, 1, len(curve)), curve))


def claims(layers: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and model, over its layers of self-attention in the encoder."""
    rows = []
    judged = (layers["kind"] == Kind.ENCODER) & ~layers["model"].str.endswith(UNTRAINED)
    for model, own in layers[judged].groupby("model", sort=False):
        # Random projections of the same shape are what the rule must not be passed by.
        passed = own["random_third"].mean() >= 0.9
        closed = "diagnostic: random projections of this shape pass too" if passed else NONE
        rows.append(released_claim("why-query-key-low-rank", model, **_over_layers(own["third"]),
                                   closed=closed))  # fmt: skip
        gap = own["turned_together"] - own["together"]
        rows.append(released_claim("why-query-key-shared", model, **_over_layers(gap)))
    return claims_table(rows)


def _over_layers(values: pd.Series) -> dict[str, float]:
    """Mean over the layers of a model, with a bootstrap over them."""
    numbers = values.to_numpy(float)
    drawn = np.random.default_rng(0).choice(numbers, (RESAMPLES, len(numbers)))
    low, high = percentile_interval(drawn.mean(1))
    return {"value": numbers.mean(), "low": low, "high": high}


def summary(tables: Tables) -> pd.DataFrame:
    """Share of the dimensions for nine tenths of the energy, one row per model and kind.

    Without the models of `by_width`.
    """
    layers = tables["layers"]
    mean = layers[~layers["model"].str.startswith(BY_WIDTH)].groupby(["model", "kind"], sort=False)
    columns = {"alone": "one head", "random_alone": "one head, random", "together": "all heads",
               "turned_together": "all heads, each turned",
               "random_together": "all heads, random"}  # fmt: skip
    frame = mean[list(columns)].mean().map(words.percent).rename(columns=columns).reset_index()
    before = {name + UNTRAINED: title + UNTRAINED for name, title in words.TITLES.items()}
    return frame.assign(model=frame["model"].replace(words.TITLES | before))


def by_width(tables: Tables) -> pd.DataFrame:
    """The same of encoders that differ in width alone, trained and before training."""
    mean = tables["layers"].query("kind == 'encoder'").groupby("model").mean(numeric_only=True)
    lines = []
    for row in tables["trained"].query("model in @BY_WIDTH").sort_values("width").itertuples():
        own, before = mean.loc[row.model], mean.loc[row.model + UNTRAINED]
        shares = {"one head": own["alone"], "all heads": own["together"],
                  "all heads, each turned": own["turned_together"],
                  "all heads, untrained": before["together"]}  # fmt: skip
        lines.append({"width": row.width, "BLEU": f"{row.bleu:.1f}"}
                     | {name: words.percent(share) for name, share in shares.items()})  # fmt: skip
    return pd.DataFrame(lines)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    layers = tables["layers"].query("kind == 'encoder'")
    mean = layers.groupby("model")[["alone", "together", "random_together", "random_alone",
                                    "turned_together", "third", "random_third"]].mean()  # fmt: skip
    updates = tables["trained"].query("model in @BY_WIDTH")["updates"].unique()
    found: Facts = {"draws": str(DRAWS), "width_updates": ", ".join(map(words.count, updates))}
    for model, row in mean.iterrows():
        key = re.sub(r"\W+", "_", str(model))
        found |= {f"{key}_{name}": words.percent(value) for name, value in row.items()}
    for row in tables["claims"].query("claim == 'why-query-key-shared'").itertuples():
        key = re.sub(r"\W+", "_", row.model)
        found[f"{key}_shared_estimate"] = words.points_estimate(row.value, row.low, row.high)
    return found
