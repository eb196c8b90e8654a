"""Page 19: gates on all attentions (Voita et al. 2019, section 6.3, Table 2, Figures 9, 10)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from headbook.artefacts.pruned import EVERYTHING, keeping, some_but_not_all
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads._pruned_tables import (
    Sweep,
    control_table,
    gap_claim,
    loss_claim,
    point_rows,
    replicates_claim,
    sweeps,
    under_half,
)
from headbook.chapters.sweeps import FURTHER, GATES, RANDOM, SCRATCH
from headbook.chapters.tables import of_ours, of_small, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.ledger import load as ledger
from headbook.runs.store import Store
from headbook.statistics import Replicates, group_means
from headbook.types import Kind

NUMBER = 19
TITLE = "Which kind of attention can be pruned first?"
WORK = "voita2019"
KEYS = ("model", "penalty")

EXTREME = 0.10
"""Points that keep, or close, less than this share say nothing about an order (the ledger)."""
STEP = 0.1
"""Of the share pruned, at which sweeps of several models are averaged."""
THIRDS = ("low", "middle", "high")
ARMS = {GATES: "chosen by gates", RANDOM: "random heads", SCRATCH: "from scratch"}
ORDERS = {
    "encoder": "voita-f9-encoder-first",
    "cross": "voita-f9-cross-last",
    "low": "voita-f10-decoder-low",
    "high": "voita-f10-cross-high",
}
PAPER = ((34, 47, 47), (24, 40, 39), (15, 33, 33), (13, 27, 28), (11, 20, 22), (8, 13, 15),
         (5, 9, 12))  # fmt: skip
"""Figure 9, WMT, every second point, read off: heads left of 48 in encoder, decoder and cross."""
OF_KIND = 48


Parameters = Trained


@dataclass(frozen=True)
class Order:
    """Heads that go first, over the points of a sweep that can tell."""

    sweep: Sweep

    @cached_property
    def every(self) -> Bool[np.ndarray, "point kind layer head"]:
        """Heads that each point keeps."""
        closed = [each.closed_heads for each in self.sweep.learned]
        return keeping(closed, EVERYTHING, self.sweep.base.run.size)

    @cached_property
    def shares(self) -> Float[np.ndarray, "kind layer head"]:
        """At how many of the points each head is kept; NaN where there is no point."""
        kept = some_but_not_all(self.every, EXTREME)
        return kept.mean(axis=0) if len(kept) else np.full(kept.shape[1:], np.nan)

    def encoder_first(self) -> Replicates:
        """Kept share of both decoder attentions, their mean, minus that of the encoder."""
        encoder, decoder, cross = group_means(self.shares)
        return (decoder + cross) / 2 - encoder

    def cross_last(self) -> Replicates:
        """Kept share of the cross-attention minus the larger of the other two."""
        encoder, decoder, cross = group_means(self.shares)
        return cross - np.maximum(encoder, decoder)

    def high_minus_low(self, kind: Kind) -> Replicates:
        """Kept share in the highest third of the layers minus that in the lowest."""
        of_kind = self.shares[EVERYTHING.index(kind)]
        third = max(1, len(of_kind) // 3)
        low, high = of_kind[:third], of_kind[third:][-third:]
        low, high = group_means([low, high])
        return high - low


def compute(parameters: Parameters, store: Store) -> Tables:
    """At a profile, the sweeps of its models."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The sweep of every model with gates everywhere: BLEU with controls, heads left by layer."""
    found = [Order(each) for each in sweeps(config, EVERYTHING, store)]
    return {
        "points": stacked(point_rows(each.sweep) for each in found),
        "controls": control_table(each.sweep for each in found),
        "layers": stacked(_layer_rows(each) for each in found),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _layer_rows(order: Order) -> pd.DataFrame:
    """One row per point and block: heads left in it."""
    size, heads = order.sweep.base.run.size, order.sweep.heads
    rows = [
        {
            **order.sweep.labels, "penalty": point.penalty, "pruned": point.closed,
            "pruned_of": heads, "kind": str(kind), "layer": layer + 1,
            "kept": int(kept[number, layer].sum()), "of": size.heads,
        }
        for point, kept in zip(order.sweep.learned, order.every, strict=True)
        for number, kind in enumerate(EVERYTHING)
        for layer in range(size.layers)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def _claims(order: Order) -> Iterator[dict[str, object]]:
    sweep = order.sweep
    yield loss_claim("voita-t2-half", sweep, under_half(sweep))
    if sweep.scratch:  # a whole training each: not every model has them
        yield gap_claim("voita-t2-trained-beats-scratch", sweep, SCRATCH)
    yield replicates_claim("voita-f9-encoder-first", sweep, order.encoder_first())
    yield replicates_claim("voita-f9-cross-last", sweep, order.cross_last())
    low = -order.high_minus_low(Kind.DECODER)
    yield replicates_claim("voita-f10-decoder-low", sweep, low)
    high = order.high_minus_low(Kind.CROSS)
    yield replicates_claim("voita-f10-cross-high", sweep, high)
    yield gap_claim("budhraja-random-everywhere", sweep, RANDOM)


def by_kind(tables: Tables) -> pd.DataFrame:
    """Per cent of each kind's heads left over per cent of all heads pruned.

    Straight lines between the points of each model, then the mean over models, with their range.
    """
    return _averaged(tables["layers"], "kind")


def by_third(tables: Tables, kind: str) -> pd.DataFrame:
    """The same for low, middle and high layers of one kind; layer by layer without thirds."""
    rows = tables["layers"].query("kind == @kind")
    count = int(rows["layer"].max())
    return _averaged(rows.assign(layers=[_third(layer, count) for layer in rows["layer"]]),
                     "layers")  # fmt: skip


def _third(layer: int, count: int) -> str:
    if count % len(THIRDS):
        return f"layer {layer}"
    third = count // len(THIRDS)
    return f"{THIRDS[(layer - 1) // third]} layers"


def _averaged(rows: pd.DataFrame, group: str) -> pd.DataFrame:
    """Mean, smallest and largest per cent left over the models, on a grid that all reach; of one
    model alone at its own points."""
    pruned = rows["pruned"] / rows["pruned_of"]
    most = pruned.groupby(rows["model"]).max().min()
    grid = np.arange(0, most + 1e-9, STEP)
    if rows["model"].nunique() == 1:
        grid = np.unique([0, *pruned])
    frames = []
    for name, of_group in rows.assign(share=pruned).groupby(group, sort=False):
        lines = np.array([_left(each, grid) for _, each in of_group.groupby("model", sort=False)])
        columns = {"value": lines.mean(0), "low": lines.min(0), "high": lines.max(0)}
        frames.append(pd.DataFrame(columns).mul(100).assign(pruned=100 * grid, **{group: name}))
    return stacked(frames)


def _left(rows: pd.DataFrame, grid: Float[np.ndarray, " at"]) -> Float[np.ndarray, " at"]:
    """The share left of these blocks of one model, from the whole model on."""
    points = rows.groupby(["share", "penalty"])[["kept", "of"]].sum().reset_index()
    left = points["kept"] / points["of"]
    return np.interp(grid, [0, *points["share"]], [1, *left])


def paper() -> pd.DataFrame:
    """The paper's Figure 9, in the columns of `by_kind`."""
    rows = [
        (100 * (1 - sum(left) / (len(left) * OF_KIND)), str(kind), 100 * kept / OF_KIND)
        for left in PAPER
        for kind, kept in zip((Kind.ENCODER, Kind.DECODER, Kind.CROSS), left, strict=True)
    ]
    return pd.DataFrame(rows, columns=["pruned", "kind", "value"])


def bleu(tables: Tables) -> pd.DataFrame:
    """BLEU minus that of the whole model trained as long, over heads left: of the first model."""
    points = tables["points"]
    rows = points[(points["model"] == points["model"].iloc[0]) & points["arm"].isin(list(ARMS))]
    names = {"to_further": "value", "to_further_low": "low", "to_further_high": "high"}
    return rows.rename(columns=names).assign(left=rows["kept"], heads=rows["arm"].map(ARMS))


def controls(tables: Tables) -> pd.DataFrame:
    """One row per model and point with controls: BLEU by gates minus that of each control."""
    rows = tables["controls"]
    cells = [words.difference(row.gap, row.gap_low, row.gap_high, 1)
             for row in rows.itertuples()]  # fmt: skip
    found = pd.DataFrame(
        {"model": rows["model"].map(words.model), "heads left": rows["kept"],
         "BLEU": rows["bleu"].map("{:.1f}".format), "minus": rows["control"], "": cells}
    )  # fmt: skip
    wide = found.pivot(index=["model", "heads left", "BLEU"], columns="minus", values="")
    wide = wide.sort_index(level=["model", "heads left"], ascending=[True, False])
    return wide.add_prefix("minus ").reset_index().rename_axis(columns=None).fillna("")


def orders(tables: Tables) -> pd.DataFrame:
    """One row per model: each order's difference in kept shares, in points, with its interval."""
    rows = tables["claims"][tables["claims"]["claim"].isin(ORDERS.values())]
    cells = [words.lead(row.value, row.low, row.high) for row in rows.itertuples()]
    titles = {
        ORDERS["encoder"]: "encoder first",
        ORDERS["cross"]: "cross-attention last",
        ORDERS["low"]: "decoder: low layers",
        ORDERS["high"]: "cross-attention: high layers",
    }
    found = pd.DataFrame({"model": rows["model"].map(words.model),
                          "order": rows["claim"].map(titles), "": cells})  # fmt: skip
    wide = found.pivot(index="model", columns="order", values="")[list(titles.values())]
    return wide.reset_index().rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the small models means and ranges, and of the long training."""
    small, ours = of_small(tables), of_ours(tables)
    claims, layers = small["claims"].set_index("claim"), small["layers"]
    values = claims["value"]
    found: Facts = {
        "models": str(layers["model"].nunique()),
        "heads": str(layers["pruned_of"].max()),
        "cross_clear": str(int((claims.loc[[ORDERS["cross"]], "low"] > 0).sum())),
        "first_model": words.model(small["points"]["model"].iloc[0]),
    }
    for name, claim in ORDERS.items():
        own, paper = 100 * values[[claim]], ledger().claim(claim).paper[0].values[0]
        found[name] = words.points(own.mean() / 100)
        found[f"{name}_range"] = f"{words.signed(own.min(), 0)} to {words.signed(own.max(), 0)}"
        found[f"{name}_paper"] = words.points(paper)
    for name, claim in (("half", "voita-t2-half"), ("random", "budhraja-random-everywhere"),
                        ("scratch", "voita-t2-trained-beats-scratch")):  # fmt: skip
        own = values[[claim]]
        found[name] = f"{words.signed(own.min(), 1)} to {words.signed(own.max(), 1)}"
    random = claims.loc[["budhraja-random-everywhere"]]
    found["random_worse"] = f"{(random['high'] < 0).sum()} of {len(random)}"
    found["scratch_models"] = str(len(values[["voita-t2-trained-beats-scratch"]]))
    published = ledger().claim("voita-t2-half").paper[0]
    small, (kept,) = published.values[0], re.findall(r"(\d+) of \d+ heads left", published.of)
    scratch = ledger().claim("voita-t2-trained-beats-scratch").paper[0].values
    found["half_paper"] = words.signed(small)
    found["half_paper_kept"] = kept
    found["scratch_paper"] = f"{words.signed(min(scratch))} to {words.signed(max(scratch))}"
    return found | (_of_ours(ours) if len(ours["layers"]) else {})


def _of_ours(tables: Tables) -> Facts:
    """Of the long training: each order with its interval, and what pruning costs."""
    claims, points = tables["claims"].set_index("claim"), tables["points"].set_index("arm")
    gates = points.loc[[GATES]]
    under = 2 * gates["kept"] < gates["of"]
    half = gates[under].sort_values("kept").iloc[-1]
    more = gates[~under].sort_values("kept").iloc[0]
    change = ["to_further", "to_further_low", "to_further_high"]
    random = claims.loc["budhraja-random-everywhere", ["value", "low", "high"]]
    found: Facts = {
        "ours_whole": f"{points.loc[FURTHER, 'bleu']:.1f}",
        "ours_points": str(len(gates)),
        "ours_half_kept": str(half["kept"]),
        "ours_half": words.difference(*half[change], digits=1),
        "ours_more_kept": str(more["kept"]),
        "ours_more": words.difference(*more[change], digits=1),
        "ours_random": words.difference(*random, digits=1),
        "ours_draws": str(len(tables["controls"].query("control == @RANDOM"))),
    }
    for name, claim in ORDERS.items():
        found[f"ours_{name}"] = words.lead(*claims.loc[claim, ["value", "low", "high"]])
    for kind in EVERYTHING:
        found[f"ours_half_{kind}"] = str(half[f"{kind}_kept"])
    beside = tables["controls"].query("control == @RANDOM").sort_values("kept").iloc[0]
    found["ours_random_fewest"] = words.number(*beside[["gap", "gap_low", "gap_high"]], digits=1)
    fewest = gates.sort_values("kept").iloc[0]
    found["ours_fewest"] = str(fewest["kept"])
    left = fewest["encoder_heads"]  # an empty cell of a file is no text
    found["ours_survivors"] = ", ".join(left.split()) if isinstance(left, str) else "none"
    return found
