"""Page 42: singular values of attention weights (Wang et al. 2020, Linformer, section 3)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, mean_claim
from headbook.chapters.why._texts import of_length
from headbook.corpora.batches import Batch
from headbook.heads.nulls import Null, without_knowledge
from headbook.layers.spectrum import cumulative, rank_share, without_first
from headbook.looking.load import load
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.types import Kind, UserError

NUMBER = 42
TITLE = "Is attention low-rank?"
WORK = "wang2020"
KEYS = ("model", "length", "texts")

LENGTHS = (64, 128, 256, 512)
QUARTER = 4
"""The work looks at index 128 of 512."""
WEIGHTS, REST, LOGITS = "weights", "weights without the first", "logits"
RANDOM, REDRAWN = "weights of random logits", "weights, model drawn anew"


@dataclass(frozen=True)
class Parameters:
    """Models, texts per length made of joined sentences, and the longest length in tokens."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    texts: int = 2
    longest: int = 128


def compute(parameters: Parameters, store: Store) -> Tables:
    """Shares of every head by length, with nulls, and claims."""
    lengths = [length for length in LENGTHS if length <= parameters.longest]
    if not lengths or parameters.texts < 1:
        raise UserError(f"give texts of 1 or more and longest of {LENGTHS[0]} or more")
    rows = [row for name in parameters.models for length in lengths
            for row in _of(load(name), length, parameters.texts)]  # fmt: skip
    heads = pd.DataFrame(rows).assign(texts=parameters.texts)
    # Claims are about the longest texts, which a live page does not take the time for.
    judged = {"claims": claims(heads)} if lengths[-1] == LENGTHS[-1] else {}
    return {"heads": heads, **judged}


def _of(model: Loaded, length: int, texts: int) -> Iterator[dict[str, object]]:
    """One row per head and kind of matrix, mean over the texts."""
    batches = list(of_length(model, length, texts))
    found = _measured(model, batches)
    with without_knowledge(model.network, Null.DRAWN, 0):
        found[REDRAWN] = _measured(model, batches)[WEIGHTS]
    for matrix, (share, quarter) in found.items():
        for (layer, head), value in np.ndenumerate(share.numpy()):
            yield {"model": model.name, "length": length, "matrix": matrix, "layer": layer + 1,
                   "head": head + 1, "share": float(value),
                   "quarter": float(quarter[layer, head])}  # fmt: skip


def _measured(model: Loaded, batches: list[Batch]) -> dict[str, tuple[Tensor, Tensor]]:
    """By kind of matrix: share of the values for nine tenths, and what a quarter holds."""
    sums: dict[str, list[tuple[Tensor, Tensor]]] = {}
    generator = torch.Generator().manual_seed(0)
    for batch in batches:
        with torch.no_grad(), capture(model.network, {Point.SCORES, Point.WEIGHTS}) as tape:
            model.network(batch)
        weights = torch.stack([each[0] for each in tape[Kind.ENCODER, Point.WEIGHTS]])
        scores = torch.stack([each[0] for each in tape[Kind.ENCODER, Point.SCORES]])
        spread = scores.std((-2, -1), keepdim=True)
        noise = torch.randn(scores.shape, generator=generator)
        matrices = {
            WEIGHTS: weights, REST: without_first(weights), LOGITS: scores,
            RANDOM: (noise * spread).softmax(-1),
        }  # fmt: skip
        for name, each in matrices.items():
            quarter = cumulative(each)[..., each.shape[-1] // QUARTER - 1]
            sums.setdefault(name, []).append((rank_share(each), quarter))
    return {
        name: (torch.stack([one for one, _ in each]).mean(0),
               torch.stack([other for _, other in each]).mean(0))
        for name, each in sums.items()
    }  # fmt: skip


def claims(heads: pd.DataFrame) -> pd.DataFrame:
    """One row per claim and model at its longest texts, intervals over heads."""
    rows = []
    for model, own in heads.groupby("model", sort=False):
        longest = at_longest(own)
        wide = longest.pivot(index=["layer", "head"], columns="matrix", values="quarter")
        upper = longest["layer"].max() // 2
        layer = wide[WEIGHTS].groupby("layer").mean()
        counts = own[own["matrix"] == WEIGHTS].assign(count=own["share"] * own["length"])
        counts = counts.pivot(index=["layer", "head"], columns="length", values="count")
        found = {
            "low-rank-beyond-random": wide[WEIGHTS] - wide[RANDOM],
            "low-rank-log-length": counts[counts.columns.max()] / counts[counts.columns.min()],
            "low-rank-learnt": wide[WEIGHTS] - wide[REDRAWN],
        }
        gaps = layer[layer.index > upper].to_numpy() - layer[layer.index <= upper].to_numpy()
        found["low-rank-upper-layers"] = gaps
        rows += [mean_claim(claim, model, values) for claim, values in found.items()]
    return claims_table(rows)


def by_length(tables: Tables, model: str) -> pd.DataFrame:
    """Share of the singular values for nine tenths of their sum: mean, least and largest head."""
    own = tables["heads"].query("model == @model")
    found = own.groupby(["matrix", "length"], sort=False)["share"].agg(["mean", "min", "max"])
    return found.reset_index().rename(columns={"mean": "value", "min": "low", "max": "high"})


def at_longest(heads: pd.DataFrame) -> pd.DataFrame:
    """The rows of each model at its own longest texts; a run of some models may have shorter ones
    than the published rows of others."""
    return heads[heads["length"] == heads.groupby("model")["length"].transform("max")]


def summary(tables: Tables) -> pd.DataFrame:
    """The same at the longest texts, one row per model, a column per matrix."""
    longest = at_longest(tables["heads"])
    mean = longest.groupby(["model", "length", "matrix"], sort=False)["share"].mean().unstack()
    frame = mean.map(words.percent).reset_index().rename_axis(columns=None)
    return frame.assign(model=frame["model"].replace(words.TITLES))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, at the longest texts of each model."""
    heads = tables["heads"]
    keys = {WEIGHTS: "weights", REST: "rest", LOGITS: "logits", RANDOM: "random",
            REDRAWN: "redrawn"}  # fmt: skip
    found: Facts = {"length": str(int(heads["length"].max())), "texts": str(heads["texts"].iloc[0]),
                    "shortest": str(int(heads["length"].min()))}  # fmt: skip
    for row in tables["claims"].query("claim == 'low-rank-log-length'").itertuples():
        key = f"{row.model.replace('-', '_')}_growth"
        found[key] = f"{row.value:.1f}"
        found[f"{key}_estimate"] = words.number(row.value, row.low, row.high, 1)
    span = heads["length"].max(), heads["length"].min()
    found |= {"log_growth": f"{np.log(span[0]) / np.log(span[1]):.1f}",
              "linear_growth": f"{span[0] / span[1]:.0f}"}  # fmt: skip
    for model, own in at_longest(heads).groupby("model", sort=False):
        longest = own.groupby("matrix")
        name = str(model).replace("-", "_")
        for matrix, key in keys.items():
            found[f"{name}_{key}"] = words.percent(longest["share"].mean()[matrix])
            found[f"{name}_{key}_quarter"] = words.percent(longest["quarter"].mean()[matrix])
    return found
