"""Page 23: pruning by importance through training (Michel et al. 2019, section 6, Figure 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from headbook.artefacts.model import TrainedModel, heads_of, trained
from headbook.artefacts.pruning_orders import Order, importances, random_orders
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.profile import Pruning
from headbook.chapters.sixteen._curves import (
    Curve,
    Replicates,
    Scored,
    averaged,
    curve,
    curve_rows,
    mean_kept,
    prunable,
    score,
)
from headbook.chapters.tables import claim_row, model_labels, of_ours, of_small, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.gates import EARLY
from headbook.claims.ledger import load as ledger
from headbook.pruning.ranking import ascending
from headbook.runs.store import Store
from headbook.statistics import interval

NUMBER = 23
TITLE = "When do heads become important?"
WORK = "michel2019"
KEYS = ("model", "update")

TRANSLATES = 1.0
"""BLEU from which a checkpoint is pruned: below it there is nothing to lose."""
LEAST = (0.85, 0.9)
"""Of a checkpoint's own BLEU: where the paper reads off how much can be pruned."""
BEST = "best"
ORDERS = (Order.POSITION, Order.RANDOM)
NAMES = {Order.POSITION: "by its own importance", Order.RANDOM: "in one random order"}


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """At a profile, every checkpoint of its first model, pruned."""
    return at_profile(parameters, store, trained_here)


@dataclass(frozen=True)
class Checkpoint:
    """The model at one update (None: the best), its pruning curves and BLEU of all their masks.

    There is no curve where it does not translate yet.
    """

    update: int | None
    at: int
    curves: tuple[Curve, ...]
    scored: Scored

    @property
    def name(self) -> str:
        return BEST if self.update is None else str(self.update)

    @property
    def bleu(self) -> float:
        return float(self.scored.bleu[self.scored.full])

    def prunable(self, least: float, order: str = Order.POSITION) -> Replicates:
        """The share prunable in that order at so much of this checkpoint's own BLEU."""
        measure = partial(prunable, scored=self.scored, least=least)
        return averaged(measure, self.curves, order)

    def kept(self, order: str) -> Replicates:
        return averaged(partial(mean_kept, scored=self.scored), self.curves, order)


def trained_here(config: Config, store: Store) -> Tables:
    """Curves, mean BLEU kept and prunable share of every checkpoint of the first model."""
    model = trained(config.examined_models()[0], store)
    labels, found = model_labels(model), list(_checkpoints(model, config.preset.pruning, store))
    pruned = [each for each in found if each.curves]
    return {
        "checkpoints": pd.DataFrame([_summary(each) for each in found]).assign(**labels),
        "curves": stacked(
            curve_rows(each.curves, each.scored).assign(update=each.name, at_update=each.at)
            for each in pruned
        ).assign(**labels),
        "prunable": pd.DataFrame([row for each in pruned for row in _prunable(each)]).assign(
            **labels
        ),
        "claims": pd.DataFrame(list(_claims(labels, pruned))),
    }


def _checkpoints(model: TrainedModel, preset: Pruning, store: Store) -> Iterator[Checkpoint]:
    """Checkpoints saved on the way, in order, then the best one, which is measured once."""
    losses = model.curve.set_index("update")["valid_loss_nats"]
    best = int(losses.idxmin())
    ways = [(update, update) for update in model.snapshots if update != best]
    for update, at in [*ways, (None, best)]:
        whole = score(model, (), preset.translated, store, update)
        found = Checkpoint(update, at, (), whole)
        if update is None or found.bleu >= TRANSLATES:
            curves = tuple(_curves(model, update, preset, store))
            scored = score(model, curves, preset.translated, store, update)
            found = Checkpoint(update, at, curves, scored)
        yield found


def _curves(
    model: TrainedModel, update: int | None, preset: Pruning, store: Store
) -> Iterator[Curve]:
    """By the checkpoint's own importance, and in one random order, the same at all of them."""
    scores = importances(model, preset.examined, store, update=update)
    yield curve(ascending(scores), preset.levels, Order.POSITION)
    for order in random_orders(heads_of(model), 1):
        yield curve(order, preset.levels, Order.RANDOM)


def _summary(each: Checkpoint) -> dict[str, object]:
    """One row: BLEU, mean BLEU kept in both orders, and how far importance is above random."""
    row = {"update": each.name, "at_update": each.at, "bleu": each.bleu,
           "pruned": bool(each.curves)}  # fmt: skip
    if not each.curves:
        return row
    by_importance, by_chance = each.kept(Order.POSITION), each.kept(Order.RANDOM)
    above = interval(by_importance - by_chance)
    return row | {
        "kept": float(by_importance[0]),
        "kept_random": float(by_chance[0]),
        **dict(zip(("above_random", "above_low", "above_high"), above, strict=True)),
    }


def _prunable(each: Checkpoint) -> Iterator[dict[str, object]]:
    for order in ORDERS:
        for least in LEAST:
            share, low, high = interval(each.prunable(least, order))
            yield {"update": each.name, "at_update": each.at, "order": str(order),
                   "least": least, "share": share, "low": low, "high": high}  # fmt: skip


def _claims(labels: dict[str, object], pruned: list[Checkpoint]) -> Iterator[dict[str, object]]:
    first, best = pruned[0], pruned[-1]
    late, early = best.prunable(LEAST[0]), first.prunable(LEAST[0])
    if first is best:
        early = np.full_like(early, np.nan)
    yield claim_row("michel-f5-late-prunable", labels, *interval(late))
    claim = "michel-f5-early-heads-equal"
    yield claim_row(claim, labels, *interval(late - early), float(early[0]))


def through_training(tables: Tables) -> pd.DataFrame:
    """Share prunable at 85 % of own BLEU, in per cent: one row per checkpoint and order.

    Checkpoints are left out whose BLEU is under a tenth of the best one's.
    """
    rows = tables["prunable"].query("least == @LEAST[0]")
    rows = rows[rows["update"].isin(_learnt(tables))]
    shares = 100 * rows[["share", "low", "high"]].rename(columns={"share": "value"})
    return shares.assign(at_update=rows["at_update"], order=rows["order"].map(NAMES))


def _learnt(tables: Tables) -> list[str]:
    bleu = tables["checkpoints"].set_index("update")["bleu"]
    return list(bleu.index[bleu >= EARLY * bleu[BEST]])


def paper(tables: Tables) -> pd.DataFrame:
    """The paper's share late in training, at the last checkpoint."""
    return pd.DataFrame({"at_update": [tables["checkpoints"]["at_update"].max()],
                         "value": [100 * _late()]})  # fmt: skip


def _late() -> float:
    return ledger().claim("michel-f5-late-prunable").paper[0].values[0]


def by_share(tables: Tables) -> pd.DataFrame:
    """Per cent of BLEU kept over per cent of heads pruned, by importance: Figure 5."""
    rows = tables["curves"].query("order == @Order.POSITION").sort_values("at_update")
    rows = rows[rows["update"].isin(_learnt(tables))]
    return pd.DataFrame(
        {"share": 100 * rows["share"], "value": 100 * rows["kept"],
         "checkpoint": "update " + rows["at_update"].map(words.count)}
    )  # fmt: skip


def lead_at(tables: Tables, share: float) -> pd.Series:
    """Part of BLEU that the best checkpoint of each model keeps with that share of heads pruned, by
    importance minus in random order."""
    rows = tables["curves"].query("update == @BEST and level == @share")
    kept = rows.pivot_table(index="model", columns="order", values="kept")
    return kept[str(Order.POSITION)] - kept[str(Order.RANDOM)]


def checkpoints(tables: Tables) -> pd.DataFrame:
    """One row per checkpoint: BLEU, mean BLEU kept in both orders, and the difference."""
    rows = tables["checkpoints"].query("pruned")
    lead = zip(rows["above_random"], rows["above_low"], rows["above_high"], strict=True)
    best = (rows["update"] == BEST).map({True: " (best)", False: ""})
    return pd.DataFrame(
        {"update": rows["at_update"].map(words.count) + best,
         "BLEU": rows["bleu"].map("{:.1f}".format),
         "kept by importance": rows["kept"].map(words.percent),
         "kept in random order": rows["kept_random"].map(words.percent),
         "difference, points": [words.lead(*each) for each in lead]}
    )  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the small model, of ours that converged, of the narrow one."""
    found = _of_model(of_small(tables))
    for short, name in (("ours", words.OURS), ("narrow", words.NARROW)):
        long = of_ours(tables, name)
        if len(long["checkpoints"]):
            found |= {f"{short}_{each}": text for each, text in _of_model(long).items()}
    return found


def _of_model(tables: Tables) -> Facts:
    """The same of the tables of one model."""
    rows = tables["checkpoints"].set_index("update")
    shares = tables["prunable"].set_index(["update", "order", "least"])
    learnt = _learnt(tables)
    first, last = rows[rows["pruned"]].iloc[0], rows.loc[BEST]
    found: Facts = {
        "model": words.model(last["model"]),
        "paper": words.percent(_late()),
        "last_update": words.count(int(last["at_update"])),
        "last_bleu": f"{last['bleu']:.1f}",
        "first_update": words.count(int(first["at_update"])),
        "first_bleu": f"{first['bleu']:.1f}",
        "early_bleu": f"{rows.loc[learnt[0], 'bleu']:.1f}",
        "learnt": str(len(learnt)),
    }
    for name, update in (("early", learnt[0]), ("last", BEST)):
        for order, short in ((Order.POSITION, "importance"), (Order.RANDOM, "random")):
            row = shares.loc[(update, order, LEAST[0])]
            found[f"{name}_{short}"] = words.estimate(row["share"], row["low"], row["high"])
            found[f"{name}_{short}_short"] = words.percent(row["share"])
    for update, row in rows.loc[learnt].iterrows():
        lead = words.lead(row["above_random"], row["above_low"], row["above_high"])
        share = shares.loc[(update, Order.POSITION, LEAST[0]), ["share", "low", "high"]]
        found |= {
            f"lead_{update}": lead,
            f"bleu_{update}": f"{row['bleu']:.1f}",
            f"share_{update}": words.estimate(*share),
        }
    return found
