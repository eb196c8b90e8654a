"""Page 57: heads removed in pairs and sets, and how the others make up for one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing import _composing as composing
from headbook.chapters.seeing._together import Pair, held, pairs_of, removed
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.ledger import Gate
from headbook.claims.verdict import COLUMNS
from headbook.heads.measure import RatioSums, percentiles
from headbook.looking.effects import VECTORS, Effects, own_batches
from headbook.looking.load import load
from headbook.looking.text import text
from headbook.models.capture import Point
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval, over_seeds, resampled_ratio
from headbook.types import HeadId, UserError

NUMBER = 57
TITLE = "Do heads work together?"
WORK = "mcgrath2023"
KEYS = ("model", "text", "sentences", "layer", "head", "other_layer", "other_head")

REPLICATES = 1000
SHARES = (1 / 12, 1 / 6, 1 / 3, 1 / 2)
"""Sizes of removed sets, as shares of the heads."""
RANDOM, LEAST, LAYER = "random heads", "least important heads", "all heads of a layer"


@dataclass(frozen=True)
class Parameters:
    """Models and a text that all of them read, sentences of it, pairs of heads within a layer (and
    as many between layers), and random sets per size (0: neither sets nor held heads)."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    text: str = "ewt-sample"
    sentences: int = 24
    pairs: int = 3
    draws: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Interactions and composition of pairs; with draws also sets, layers, and effects with the
    others held."""
    if parameters.sentences < 2 or parameters.pairs < 1 or parameters.draws in (1,):
        raise UserError("give 2 or more sentences, 1 or more pairs, and draws of 0 or 2 and more")
    tables: dict[str, list[pd.DataFrame]] = {}
    rows: list[dict[str, object]] = []
    for name in parameters.models:
        model = load(name)
        sentences = text(parameters.text).sentences[: parameters.sentences]
        labels = {"model": name, "text": parameters.text, "sentences": len(sentences)}
        found = _Measured.of(model, sentences, parameters)
        for table, frame in found.tables().items():
            tables.setdefault(table, []).append(frame.assign(**labels))
        if parameters.draws:
            rows += [released_claim(model=name, **row) for row in found.claims()]
    joined = {name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()}
    if rows:
        joined["claims"] = claims_table(rows)
    return joined


@dataclass(frozen=True)
class _Measured:
    """Effects of one model, [set sentence]; `single` of every head, the others where measured."""

    heads: Sequence[HeadId]
    pairs: Sequence[Pair]
    single: Effects
    double: Effects
    sets: Sequence[tuple[str, int, int, Sequence[int]]]  # way, size, draw or layer, heads
    joint: Effects | None
    maps: Effects | None
    contexts: Effects | None
    composition: composing.Scores | None = None

    @classmethod
    def of(cls, model: Loaded, sentences: Sequence[str], parameters: Parameters) -> "_Measured":
        kind = next(iter(model.network.attentions()))[0]
        heads = [head for head in all_heads(model.network) if head.kind is kind]
        layers = np.array([head.layer for head in heads])
        batches = own_batches(model, sentences)
        pairs = pairs_of(layers, parameters.pairs)
        wanted = range(len(heads)) if parameters.draws else sorted({at for p in pairs for at in p})
        single = _placed(removed(model, batches, heads, [[at] for at in wanted]), wanted, heads)
        double = removed(model, batches, heads, pairs)
        composition = composing.scores_of(model, heads)
        if not parameters.draws:
            return cls(heads, pairs, single, double, (), None, None, None, composition)
        sets = list(_sets(layers, single.mean.numpy(), parameters.draws))
        joint = removed(model, batches, heads, [chosen for *_, chosen in sets])
        maps, contexts = (held(model, batches, heads, point)
                          for point in (Point.WEIGHTS, Point.CONTEXT))  # fmt: skip
        return cls(heads, pairs, single, double, sets, joint, maps, contexts, composition)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Pairs, and what was measured beside them."""
        found = {"pairs": self._pairs()}
        if self.composition is not None:
            found["composition"] = composing.by_layers(self.composition, self.heads)
        if self.joint is not None:
            found |= {"heads": self._heads(), "sets": self._sets()}
        return found

    def claims(self) -> Iterator[dict[str, object]]:
        """Claim, value and interval over sentences, or heads, of each row of the claims table."""
        within = torch.tensor([self._together(pair) for pair in self.pairs])
        extra, alone = self._interaction(), self._alone()
        parts = torch.stack([extra.sum(0), extra[within].sum(0), extra[~within].sum(0)], 1)
        of = torch.stack([alone.sum(0), alone[within].sum(0), alone[~within].sum(0)], 1)
        shares = self._replicates(parts, of)
        yield _row("pairs-more-than-sum", shares[:, 0])
        yield _row("pairs-within-layer", shares[:, 1] - shares[:, 2])
        yield self_repair(self._heads(), self.single.unit)
        joint, alone_mean = self.joint.mean.numpy(), self.single.mean.numpy()
        most = max(size for way, size, *_ in self.sets if way == RANDOM)
        ratios = [joint[at] / alone_mean[list(chosen)].sum() - 1
                  for at, (way, size, _, chosen) in enumerate(self.sets)
                  if way == RANDOM and size == most]  # fmt: skip
        over = over_seeds(ratios)
        yield {"claim": "sets-more-than-sum", "value": over.mean, "low": over.low,
               "high": over.high}  # fmt: skip
        if self.composition is not None:
            yield from composing.claims(self.composition, self._pairs(), self.heads)

    def _together(self, pair: Pair) -> bool:
        return self.heads[pair[0]].layer == self.heads[pair[1]].layer

    def _alone(self) -> torch.Tensor:
        first, second = map(list, zip(*self.pairs, strict=True))
        return self.single.added[first] + self.single.added[second]

    def _interaction(self) -> torch.Tensor:
        return self.double.added - self._alone()

    def _replicates(self, numerator: torch.Tensor, denominator: torch.Tensor) -> torch.Tensor:
        """[1 + replicate, column] of ratios, sentences drawn anew."""
        sums = RatioSums.over(numerator, denominator, self.single.sentences, REPLICATES)
        return sums.replicates()

    def _pairs(self) -> pd.DataFrame:
        replicates = self._replicates(self._interaction().T, self.single.weights[:, None])
        low, high = percentiles(replicates[1:])
        first, second = (np.array(each) for each in zip(*self.pairs, strict=True))
        places = {"layer": first, "head": first, "other_layer": second, "other_head": second}
        composed = (np.full(len(first), np.nan) if self.composition is None else
                    self.composition.mean(0)[first, second])  # fmt: skip
        frame = {name: [getattr(self.heads[at], name.removeprefix("other_")) + 1 for at in own]
                 for name, own in places.items()}  # fmt: skip
        alone = self.single.mean.numpy()
        return pd.DataFrame({
            **frame, "alone": alone[first] + alone[second], "together": self.double.mean.numpy(),
            "interaction": replicates[0].numpy(), "low": low.numpy(), "high": high.numpy(),
            "composition": composed, "unit": self.single.unit,
        })  # fmt: skip

    def _heads(self) -> pd.DataFrame:
        return pd.DataFrame({
            "layer": [head.layer + 1 for head in self.heads],
            "head": [head.head + 1 for head in self.heads],
            "effect": self.single.mean.numpy(), "maps_held": self.maps.mean.numpy(),
            "held": self.contexts.mean.numpy(),
        })  # fmt: skip

    def _sets(self) -> pd.DataFrame:
        alone = self.single.mean.numpy()
        return pd.DataFrame([
            {"way": way, "removed": size, "draw": draw, "alone": alone[list(chosen)].sum(),
             "together": together}
            for (way, size, draw, chosen), together in zip(self.sets, self.joint.mean.tolist(),
                                                           strict=True)
        ])  # fmt: skip


def self_repair(heads: pd.DataFrame, unit: str) -> dict[str, object]:
    """The claim that later heads make up for a removed one, with its interval over the heads.

    A distance of vectors grows with any change of later heads, a repair too, so a model without a
    loss says nothing about it.
    """
    below = heads[heads["layer"] < heads["layer"].max()]
    ratio = resampled_ratio(below["effect"], below["held"], seed=0)
    row = dict(zip(("value", "low", "high"), interval(1 - ratio), strict=True))
    if unit == VECTORS:
        row["closed"] = f"{Gate.PRESENT}: it has no loss that later heads could lower"
    return {"claim": "heads-self-repair", **row}


def _row(claim: str, replicates: torch.Tensor) -> dict[str, object]:
    low, high = percentiles(replicates[1:])
    return {"claim": claim, "value": float(replicates[0]), "low": float(low), "high": float(high)}


def _placed(found: Effects, wanted: Sequence[int], heads: Sequence[HeadId]) -> Effects:
    """The rows at the heads' places; heads that were not removed are NaN."""
    added = found.added.new_full((len(heads), found.added.shape[1]), torch.nan)
    added[list(wanted)] = found.added
    return Effects(added, found.weights, found.sentences, found.unit)


def _sets(
    layers: np.ndarray, importance: np.ndarray, draws: int
) -> Iterator[tuple[str, int, int, list[int]]]:
    """Random heads, the least important ones, and every layer's; draws are nested in size."""
    sizes = [max(round(share * len(layers)), 1) for share in SHARES]
    for draw in range(draws):
        order = np.random.default_rng(draw).permutation(len(layers)).tolist()
        yield from ((RANDOM, size, draw, order[:size]) for size in sizes)
    order = np.argsort(importance).tolist()
    yield from ((LEAST, size, 0, order[:size]) for size in sizes)
    for layer in sorted(set(layers)):
        own = np.flatnonzero(layers == layer).tolist()
        yield LAYER, len(own), int(layer) + 1, own


def repair(tables: Tables) -> pd.DataFrame:
    """Per model and layer: share of the effect with others held that remains, and that maps make.

    `value` is 1 minus the sum over heads of effects over that with higher heads held; `maps` is how
    much of the effect with contexts held is spared where only maps are held.
    """
    sums = tables["heads"].groupby(["model", "layer"], sort=False)
    sums = sums[["effect", "maps_held", "held"]].sum().reset_index()
    sums["value"] = 1 - sums["effect"] / sums["held"]
    sums["maps"] = 1 - sums["maps_held"] / sums["held"]
    return sums[sums["layer"] < sums.groupby("model")["layer"].transform("max")]


def below_the_last(tables: Tables, model: str) -> dict[str, float]:
    """Shares made up for over all heads below the last layer, everything free or maps held."""
    own = repair(tables).query("model == @model")
    return {"all": 1 - own["effect"].sum() / own["held"].sum(),
            "maps": 1 - own["maps_held"].sum() / own["held"].sum()}  # fmt: skip


def without_the_most_spared(tables: Tables, model: str) -> tuple[str, float]:
    """The head whose effect the others lower most, and the share made up for without it."""
    own = tables["heads"].query("model == @model")
    own = own[own["layer"] < own["layer"].max()]
    most = (own["held"] - own["effect"]).idxmax()
    rest = own.drop(index=most)
    share = 1 - rest["effect"].sum() / rest["held"].sum()
    return words.head(own.loc[most, "layer"], own.loc[most, "head"]), share


def by_size(tables: Tables, model: str) -> pd.DataFrame:
    """Measured and summed effect of removed sets by the number of heads; range over draws."""
    own = tables["sets"].query("model == @model and way != @LAYER")
    rows = []
    for (way, size), each in own.groupby(["way", "removed"], sort=False):
        short = str(way).removesuffix(" heads")
        for column, name in (("together", "together"), ("alone", "sum")):
            rows.append({"set": f"{short}, {name}", "removed": size, "value": each[column].mean(),
                         "low": each[column].min(), "high": each[column].max()})  # fmt: skip
    return pd.DataFrame(rows)


def whole_layers(tables: Tables) -> pd.DataFrame:
    """Contribution of each layer's heads together, beside the sum of each alone."""
    rows = tables["sets"].query("way == @LAYER")
    return pd.DataFrame({
        "model": rows["model"].replace(words.TITLES), "layer": rows["draw"],
        "heads": rows["removed"], "all together": rows["together"].map("{:.3f}".format),
        "sum of each alone": rows["alone"].map("{:.3f}".format),
        "ratio": (rows["together"] / rows["alone"]).map("{:.1f}".format),
    })  # fmt: skip


def strongest(tables: Tables, model: str, count: int = 10) -> pd.DataFrame:
    """The pairs whose interaction is largest, with intervals over sentences."""
    own = tables["pairs"].query("model == @model")
    own = own.loc[own["interaction"].abs().nlargest(count).index]
    ends = [
        [words.head(*pair) for pair in own[columns].itertuples(index=False)]
        for columns in (["layer", "head"], ["other_layer", "other_head"])
    ]
    return pd.DataFrame({
        "heads": [f"{one} + {other}" for one, other in zip(*ends, strict=True)],
        "sum of each alone": own["alone"].map("{:+.4f}".format),
        "together": own["together"].map("{:+.4f}".format),
        "interaction": own["interaction"].map("{:+.4f}".format),
        "95 %": [f"[{low:+.4f}, {high:+.4f}]" for low, high in zip(own["low"], own["high"],
                                                                   strict=True)],
    }).replace("-", "−", regex=True)  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by model."""
    found: Facts = {"sentences": words.count(tables["pairs"]["sentences"].max())}
    for model, own in tables["pairs"].groupby("model", sort=False):
        name = str(model).replace("-", "_")
        found |= {f"{name}_pairs": words.count(len(own)),
                  f"{name}_above": words.count((own["low"] > 0).sum()),
                  f"{name}_below": words.count((own["high"] < 0).sum())}  # fmt: skip
    for row in tables.get("claims", pd.DataFrame(columns=COLUMNS)).to_dict("records"):
        name = f"{row['model']}_{CLAIMS[row['claim']]}".replace("-", "_")
        if row["claim"] in CORRELATIONS:
            found[name] = words.signed(row["value"])
            found[f"{name}_interval"] = words.between(row["low"], row["high"])
        else:
            found[name] = words.percent(row["value"]).replace("-", "−")
            found[f"{name}_interval"] = words.interval(row["low"], row["high"])
    if "heads" in tables:
        for model in dict.fromkeys(tables["heads"]["model"]):
            shares = below_the_last(tables, model)
            head, rest = without_the_most_spared(tables, model)
            each = {"maps": words.percent(shares["maps"]), "rest": words.percent(rest)}
            name = str(model).replace("-", "_")
            found |= {f"{name}_{key}": shown.replace("-", "−") for key, shown in each.items()}
            found[f"{name}_spared"] = head
        found["draws"] = str(int(tables["sets"].query("way == @RANDOM")["draw"].max()) + 1)
    return found


CORRELATIONS = {"composition-with-interaction": "goes", "composition-apart-from-effects": "apart"}
CLAIMS = {"heads-self-repair": "repair", "pairs-more-than-sum": "extra",
          "pairs-within-layer": "within", "sets-more-than-sum": "sets",
          "composition-beyond-redrawn": "composed", **CORRELATIONS}  # fmt: skip


def apart(tables: Tables) -> pd.DataFrame:
    """Composition over redrawn weights, [model and way, layers apart]; means over layer pairs."""
    rows = tables["composition"].assign(apart=lambda rows: rows["other_layer"] - rows["layer"])
    return rows.pivot_table(index=["model", "by"], columns="apart", values="value", sort=False)


def composed(tables: Tables) -> pd.DataFrame:
    """`apart` as text."""
    rows = apart(tables).map("{:.2f}".format).reset_index()
    rows.columns = [f"layers up: {name}" if isinstance(name, int) else name for name in rows]
    return rows.rename(columns={"by": "read by"}).replace({"model": words.TITLES})


def repaired(tables: Tables) -> pd.DataFrame:
    """`repair` as text."""
    rows = repair(tables)
    return pd.DataFrame({
        "model": rows["model"].replace(words.TITLES), "layer": rows["layer"],
        "all free": rows["effect"].map("{:.3f}".format),
        "maps above held": rows["maps_held"].map("{:.3f}".format),
        "outputs above held": rows["held"].map("{:.3f}".format),
        "made up for": [words.percent(each).replace("-", "−") for each in rows["value"]],
    })  # fmt: skip
