"""Page 22, models trained here: pruning heads in the order of importance."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from headbook.artefacts.model import Heads, TrainedModel, heads_of, trained
from headbook.artefacts.pruning_orders import (
    Order,
    ablation_scores,
    importances,
    random_orders,
    reestimated,
)
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.profile import Pruning
from headbook.chapters.sixteen._curves import (
    EVERY,
    Curve,
    Replicates,
    Scored,
    averaged,
    curve,
    curve_rows,
    harmless,
    kept_at,
    mean_kept,
    score,
)
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.heads.importance import Form
from headbook.pruning.ranking import ascending
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind

FIFTH = 0.2
"""Of all heads: what the work finds free (claim michel-f3-fifth-free)."""
MOST = 0.8
"""Of one kind's heads: where the work's curves lie far apart (claims michel-f4-*)."""


@dataclass(frozen=True)
class Pruned:
    """One model, its curves, and what every mask of theirs translates."""

    labels: dict[str, object]
    curves: tuple[Curve, ...]
    scored: Scored


def trained_here(config: Config, store: Store) -> Tables:
    """BLEU along every order of pruning, mean BLEU kept, and the share of heads free of cost."""
    preset = config.preset.pruning
    found = [_prune(trained(run, store), preset, store) for run in config.examined_models()]
    curves = [curve_rows(each.curves, each.scored).assign(**each.labels) for each in found]
    pairs = zip(found, curves, strict=True)
    return {
        "curves": stacked(curves),
        "kept": stacked(_kept(each, rows) for each, rows in pairs),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _prune(model: TrainedModel, preset: Pruning, store: Store) -> Pruned:
    curves = (*_together(model, preset, store), *_alone(model, preset, store))
    scored = score(model, curves, preset.translated, store)
    return Pruned(model_labels(model), curves, scored)


def _together(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Curve]:
    """Heads of the three kinds in one order (Figure 3)."""
    heads, levels = heads_of(model), preset.levels
    position = ascending(importances(model, preset.examined, store))
    sentence = ascending(importances(model, preset.examined, store, Form.SENTENCE))
    exact = reestimated(model, preset.examined, levels, store)
    ablation = ascending(ablation_scores(model, preset.translated, store))
    yield curve(position, levels, Order.POSITION)
    yield curve(sentence, levels, Order.SENTENCE)
    yield curve(exact, levels, Order.EXACT, heads=len(heads))
    yield curve(ablation, levels, Order.ABLATION)
    for number, order in enumerate(random_orders(heads, preset.orders)):
        yield curve(order, levels, Order.RANDOM, number=number)
    yield curve(position[::-1], levels, Order.REVERSED)


def _alone(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Curve]:
    """The heads of one kind, all others left alone (Figure 4)."""
    heads = ascending(importances(model, preset.examined, store))
    for kind in Kind:
        order: Heads = tuple(head for head in heads if head.kind == kind)
        yield curve(order, preset.levels, Order.POSITION, kind)
        for number, drawn in enumerate(random_orders(order, preset.orders)):
            yield curve(drawn, preset.levels, Order.RANDOM, kind, number)


def _kept(each: Pruned, curves: pd.DataFrame) -> pd.DataFrame:
    """One row an order and scope: mean BLEU kept, how far above random, and the harmless share."""
    rows = []
    measure = partial(mean_kept, scored=each.scored)
    groups = curves.groupby(["scope", "order"], sort=False)
    for (scope, order), levels in groups:
        mean = averaged(measure, each.curves, order, scope)
        above = mean - averaged(measure, each.curves, Order.RANDOM, scope)
        names = ("kept", "low", "high", "above_random", "above_low", "above_high")
        numbers = dict(zip(names, (*interval(mean), *interval(above)), strict=True))
        free = [harmless(drawn) for _, drawn in levels.groupby("number")]
        rows.append({"scope": scope, "order": order, **numbers, "harmless_share": np.mean(free)})
    return pd.DataFrame(rows).assign(**each.labels)


def _claims(each: Pruned) -> Iterator[dict[str, object]]:
    """Those but the one about single-head ablation, which is by the loss and here by BLEU."""

    def mean(order: str) -> Replicates:
        return averaged(partial(mean_kept, scored=each.scored), each.curves, order)

    def at(level: float, scope: str = EVERY) -> Replicates:
        measure = partial(kept_at, scored=each.scored, level=level)
        return averaged(measure, each.curves, Order.POSITION, scope)

    def row(claim: str, found: Replicates, baseline: float = np.nan) -> dict[str, object]:
        return claim_row(f"michel-{claim}", each.labels, *interval(found), float(baseline))

    importance, chance, cross = mean(Order.POSITION), mean(Order.RANDOM), at(MOST, Kind.CROSS)
    either = np.minimum(at(MOST, Kind.ENCODER), at(MOST, Kind.DECODER))
    yield row("f3-fifth-free", at(FIFTH) - 1, each.scored.bleu[each.scored.full])
    yield row("f3-importance-beats-chance", importance - chance, chance[0])
    yield row("f4-cross-needs-heads", either - cross, cross[0])
    yield row("f4-self-survives", either)
