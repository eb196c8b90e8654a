"""Page 40: the query-key spaces of a layer's heads, alone and together.

Cordonnier et al. 2020, section 3 and Figure 1, which the seed article's third insight rests on.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.heads.query_key import dimensions, energy, spectra
from headbook.looking.load import load
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


@dataclass(frozen=True)
class Parameters:
    """Released models, or any that `hb.load` reads."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt", "firefox-pt-en")


def compute(parameters: Parameters, store: Store) -> Tables:
    """Curves of cumulative energy, dimensions per layer and per head, and claims."""
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
    mean = pd.DataFrame(curves).groupby(["model", "kind", "of", "share"], sort=False)["energy"]
    tables = {
        "curves": mean.agg(["mean", "min", "max"]).reset_index(),
        "layers": pd.DataFrame(layers),
        "heads": pd.DataFrame(heads),
    }
    return {**tables, "claims": claims(tables["layers"])}


def random_spectra(block: QueryKey) -> tuple[Tensor, Tensor]:
    """The same of independent normal entries, mean over draws: rank alone bends these curves."""
    generator = torch.Generator().manual_seed(block.layer)
    shape = (DRAWS, *block.queries.shape)
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
    for model, own in layers[layers["kind"] == Kind.ENCODER].groupby("model", sort=False):
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
    """Share of the dimensions for nine tenths of the energy, one row per model and kind."""
    mean = tables["layers"].groupby(["model", "kind"], sort=False)
    columns = {"alone": "one head", "random_alone": "one head, random", "together": "all heads",
               "turned_together": "all heads, each turned",
               "random_together": "all heads, random"}  # fmt: skip
    frame = mean[list(columns)].mean().map(words.percent).rename(columns=columns).reset_index()
    return frame.assign(model=frame["model"].replace(words.TITLES))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    layers = tables["layers"].query("kind == 'encoder'")
    mean = layers.groupby("model")[["alone", "together", "random_together", "random_alone",
                                    "turned_together", "third", "random_third"]].mean()  # fmt: skip
    found: Facts = {"draws": str(DRAWS)}
    for model, row in mean.iterrows():
        key = str(model).replace("-", "_")
        found |= {f"{key}_{name}": words.percent(value) for name, value in row.items()}
    return found
