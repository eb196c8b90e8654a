"""Page 44: linear attention as a memory of fast weights (Schlag, Irie and Schmidhuber 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table
from headbook.claims.gates import NONE, RELEASED
from headbook.looking.load import load
from headbook.looking.text import text
from headbook.models.capture import Point, capture
from headbook.models.fast_weights import (
    Features,
    delta_memory,
    dpfp,
    elu_plus_one,
    favor,
    kernel_weights,
    linear_attention,
    orthogonal_directions,
    sum_memory,
)
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.types import Kind

NUMBER = 44
TITLE = "Is linear attention a fast-weight memory?"
WORK = "schlag2021"
KEYS = ("model", "sentences", "seed")

DIM = 64
LENGTHS = (1, 2, 9, 33, 129, 512)
WRITES = tuple(range(1, 9))
STORED = 16
"""Keys that are written to again and again."""
SUM, DELTA, SOFTMAX = "sum", "delta rule", "softmax"
UNIFORM = "uniform weights"
FAVOR = (64, 256, 1024)
"""Random features."""
RESAMPLES = 2000


@dataclass(frozen=True)
class Parameters:
    """Models whose heads are approximated, sentences of the sample, the seed of random numbers."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    sentences: int = 50
    seed: int = 0


def maps(dim: int, seed: int = 0) -> dict[str, Features]:
    """Feature maps of keys `dim` wide, by the names of figures."""
    favors = {
        f"FAVOR+, {count:,} features": partial(
            favor, directions=orthogonal_directions(count, dim, seed)
        )
        for count in FAVOR
    }
    return {
        "ELU + 1": elu_plus_one, "DPFP-1": dpfp, "DPFP-3": partial(dpfp, nu=3), **favors,
    }  # fmt: skip


def compute(parameters: Parameters, store: Store) -> Tables:
    """The identity, values read after keys were written again, heads' weights by feature maps."""
    numbers = {
        "identity": pd.DataFrame(identity_rows(parameters.seed)),
        "rewriting": pd.DataFrame(rewriting_rows(parameters.seed)),
    }
    tables = {name: table.assign(seed=parameters.seed) for name, table in numbers.items()}
    heads = [_approximated(load(name), parameters.sentences) for name in parameters.models]
    tables["heads"] = pd.concat(heads, ignore_index=True)
    return {**tables, "claims": claims(tables)}


def _drawn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def identity_rows(seed: int) -> Iterator[dict[str, object]]:
    """The largest difference of the recurrent from the quadratic form, for values around one."""
    generator = torch.Generator().manual_seed(seed)
    for length in LENGTHS:
        queries, keys, values = (_drawn(generator, 2, length, DIM) for _ in range(3))
        scaled = [each * DIM**-0.25 for each in (queries, keys)]
        for name, features in maps(DIM).items():
            query, key = map(features, scaled)
            if name.startswith("DPFP"):
                query, key = query + 1e-3, key + 1e-3  # a product of two can be zero
            for bits, kind in ((64, torch.float64), (32, torch.float32)):
                given = [each.to(kind) for each in (query, key, values)]
                gap = sum_memory(*given) - linear_attention(*given)
                yield {"map": name, "length": length, "bits": bits,
                       "difference": float(gap.abs().max())}  # fmt: skip


def rewriting_rows(seed: int) -> Iterator[dict[str, object]]:
    """The error of the last value of a key after so many writes, keys orthonormal.

    Squared distance over the squared length of the value, mean over keys, with the least and the
    largest key. Sum and softmax give the mean of n values: an error of (n − 1) / n for independent
    ones.
    """
    generator = torch.Generator().manual_seed(seed)
    values = _drawn(generator, max(WRITES) * STORED, DIM)
    for writes in WRITES:
        places = torch.arange(writes * STORED) % STORED
        keys = torch.eye(DIM, dtype=torch.float64)[places]
        written, last = values[: len(places)], values[len(places) - STORED : len(places)]
        ones = torch.ones(len(places), dtype=torch.float64)
        alike = (60 * keys @ keys.mT).tril() + torch.ones(len(places), len(places)).triu(1) * -1e9
        read = {
            SUM: sum_memory(keys, keys, written),
            SOFTMAX: alike.softmax(-1) @ written,
            DELTA: delta_memory(keys, keys, written, ones),
        }
        for name, found in read.items():
            error = (found[-STORED:] - last).square().sum(-1) / last.square().sum(-1)
            yield {"memory": name, "writes": writes, "error": float(error.mean()),
                   "low": float(error.min()), "high": float(error.max()),
                   "expected": 0.0 if name == DELTA else 1 - 1 / writes}  # fmt: skip


def _approximated(model: Loaded, sentences: int) -> pd.DataFrame:
    """Total variation distance of each head's weights from those of a feature map, mean over rows.

    Encoder heads; one sentence at a time, so that no row sees padding.
    """
    rows: list[dict[str, object]] = []
    for number, sentence in enumerate(text("ewt-sample", first=sentences).sentences):
        (batch,) = model.batches([sentence])
        points = {Point.QUERIES, Point.KEYS, Point.WEIGHTS}
        with torch.no_grad(), capture(model.network, points) as tape:
            model.network(batch)
        for layer, (queries, keys, weights) in enumerate(
            zip(*(tape[Kind.ENCODER, point] for point in
                  (Point.QUERIES, Point.KEYS, Point.WEIGHTS)), strict=True)
        ):  # fmt: skip
            found = distances(queries[0].double(), keys[0].double(), weights[0].double())
            rows += [
                {"sentence": number, "layer": layer + 1, "head": head + 1, "map": name,
                 "distance": value}
                for name, values in found.items() for head, value in enumerate(values.tolist())
            ]  # fmt: skip
    mean = pd.DataFrame(rows).groupby(["layer", "head", "map"], sort=False)["distance"].mean()
    return mean.reset_index().assign(model=model.name, sentences=sentences)


def distances(queries: Tensor, keys: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """½ Σ_j |softmax − map|, mean over queries, [head], by map; uniform weights among them."""
    dim = queries.shape[-1]
    scaled = [each * dim**-0.25 for each in (queries, keys)]
    found = {UNIFORM: torch.full_like(weights, 1 / weights.shape[-1])}
    for name, features in maps(dim).items():
        # nan where no feature of a query meets one of a key: nothing is known there
        guess = kernel_weights(*map(features, scaled))
        found[name] = torch.where(guess.isfinite(), guess, found[UNIFORM])
    return {name: (guess - weights).abs().sum(-1).mean(-1) / 2 for name, guess in found.items()}


def claims(tables: Tables) -> pd.DataFrame:
    """One row per claim: two of exact constructions, one per model."""
    exact = tables["identity"].query("bits == 64")["difference"].max()
    last = tables["rewriting"].query("writes == writes.max()").set_index("memory")["error"]
    labels = {"corpus": "", "target": "", "seed": "", "low": None, "high": None, "closed": NONE}
    rows = [
        {"claim": "fast-weights-identity", **labels, "model": "64-bit numbers", "value": exact},
        {"claim": "fast-weights-delta-overwrites", **labels, "model": "64-bit numbers",
         "value": last[DELTA]},
    ]  # fmt: skip
    for model, own in tables["heads"].groupby("model", sort=False):
        wide = own.pivot(index=["layer", "head"], columns="map", values="distance")
        gain = (wide[UNIFORM] - wide["ELU + 1"]).to_numpy()
        drawn = torch.randint(len(gain), (RESAMPLES, len(gain)),
                              generator=torch.Generator().manual_seed(0)).numpy()  # fmt: skip
        low, high = percentile_interval(gain[drawn].mean(1))
        found = {"model": model, "corpus": RELEASED, "value": gain.mean(), "low": low, "high": high}
        rows.append({"claim": "fast-weights-untrained-map", **labels, **found})
    return claims_table(rows)


def by_map(tables: Tables) -> pd.DataFrame:
    """Distance from a head's weights, one row per map, a column per model: mean over heads."""
    mean = tables["heads"].groupby(["map", "model"], sort=False)["distance"].mean().unstack()
    return (
        mean.map(words.percent).rename(columns=words.TITLES).reset_index().rename_axis(columns=None)
    )


def differences(tables: Tables) -> pd.DataFrame:
    """The identity: one row per map, a column per length, in 64 bits."""
    rows = tables["identity"].query("bits == 64")
    wide = rows.pivot(index="map", columns="length", values="difference").loc[rows["map"].unique()]
    return wide.map("{:.0e}".format).reset_index().rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    identity, rewriting = tables["identity"], tables["rewriting"].set_index(["memory", "writes"])
    mean = tables["heads"].groupby(["model", "map"])["distance"].mean()
    wide, most = f"FAVOR+, {max(FAVOR):,} features", max(WRITES)
    return {
        "exact": f"{identity.query('bits == 64')['difference'].max():.0e}",
        "single": f"{identity.query('bits == 32')['difference'].max():.0e}",
        "writes": str(most),
        "sum_error": words.percent(rewriting.loc[(SUM, most), "error"]),
        "delta_error": f"{rewriting.loc[(DELTA, most), 'error']:.0e}",
        "sentences": str(tables["heads"]["sentences"].iloc[0]),
        **{
            f"{model.replace('-', '_')}_{key}": words.percent(mean[model, name])
            for model in tables["heads"]["model"].unique()
            for key, name in (("uniform", UNIFORM), ("elu", "ELU + 1"), ("dpfp", "DPFP-3"),
                              ("favor", wide))
        },
    }  # fmt: skip
