"""Page 22: heads pruned by importance (Michel et al. 2019, section 4, Figures 3 and 4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch

from headbook.artefacts.model import Heads
from headbook.artefacts.pruning_orders import Order, random_orders
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
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
)
from headbook.chapters.sixteen._released import (
    Scores,
    Subject,
    by_model,
    claim,
    losses_added,
    titled,
    whole,
)
from headbook.chapters.tables import claims_table, small_models
from headbook.pruning.ranking import ascending
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind, UserError

NUMBER = 22
TITLE = "How many heads can go?"
WORK = "michel2019"
KEYS = ("model", "text", "sentences", "scope", "order", "number", "level")
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FIFTH, MOST = 0.2, 0.8
"""Of all heads, what the paper finds free; of one kind's, where its curves lie far apart."""


@dataclass(frozen=True)
class Parameters:
    """Translation models, how many bundled sentences orders are measured on, how many of the test
    text are translated under every mask (0: none), and how many random orders."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    sentences: int = 100
    tested: int = 0
    draws: int = 5


def compute(parameters: Parameters, store: Store) -> Tables:
    """Loss along the order of importance; BLEU along every order, its mean, claims."""
    if parameters.draws < 1:
        raise UserError(f"draws is {parameters.draws}: give 1 random order or more")
    sample, curves, kept, wholes, claims = [], [], [], [], []
    for name in parameters.models:
        subject = Subject.of(name, store)
        order = ascending(subject.importance(parameters.sentences))
        sample.append(_on_sample(subject, order, parameters.sentences))
        if parameters.tested:
            found, scored, row = _tested(subject, order, parameters)
            labels = {"model": name, "text": subject.test, "sentences": parameters.tested}
            rows = curve_rows(found, scored).rename(columns={"loss_nats": "own_loss"})
            gone = [f"{kind}_pruned" for kind in Kind if kind not in subject.kinds]
            curves.append(rows.drop(columns=gone).assign(**labels))
            kept.append(_kept(found, scored, rows).assign(**labels))
            wholes.append(row)
            claims += _claims(subject, found, scored)
    tables = {"sample": pd.concat(sample, ignore_index=True), "claims": claims_table(claims)}
    if curves:
        tables["released"] = pd.concat(curves, ignore_index=True)
        tables["means"] = pd.concat(kept, ignore_index=True)
        tables["wholes"] = pd.DataFrame(wholes)
    return tables


def _on_sample(subject: Subject, order: Heads, sentences: int) -> pd.DataFrame:
    """One row per level: the loss added on the bundled sentences, pruned by importance on these."""
    masks = curve(order, LEVELS, Order.POSITION).masks
    found = subject.on_sample(masks, sentences)
    levels = [len(mask) for mask in masks[1:]]
    return losses_added(found).assign(
        level=list(LEVELS[1:]), pruned=levels, scope=EVERY, order=str(Order.POSITION), number=0,
        model=subject.model.name, text=subject.sample_name, sentences=sentences,
    )  # fmt: skip


def ablation_scores(subject: Subject, sentences: int) -> Scores:
    """The loss that removing each head alone adds on the bundled sentences, [layer, head]."""
    found = subject.on_sample(subject.one_out, sentences)
    added = dict(zip(subject.heads, found.own_loss[1:] - found.own_loss[0], strict=True))
    scores = {}
    for kind in subject.kinds:
        values = [value for head, value in added.items() if head.kind is kind]
        layers = 1 + max(head.layer for head in subject.heads if head.kind is kind)
        scores[kind] = torch.tensor(values, dtype=torch.float64).reshape(layers, -1)
    return scores


def _tested(
    subject: Subject, order: Heads, parameters: Parameters
) -> tuple[list[Curve], Scored, dict[str, object]]:
    """All curves on the test text: joint orders, random ones, one kind at a time; each a run."""
    groups = curve_groups(subject, order, parameters.sentences, parameters.draws)
    runs = []
    for curves in groups:
        masks = list(dict.fromkeys([(), *(mask for each in curves for mask in each.masks)]))
        runs.append(subject.on_test(masks, parameters.tested, referenced=False))
    masks = [mask for run in runs for mask in run.run.masks]
    scored = Scored(
        {mask: number for number, mask in enumerate(masks)},
        np.concatenate([run.bleu for run in runs]),
        np.concatenate([run.statistics for run in runs if run.statistics is not None]),
        np.concatenate([run.own_loss for run in runs]),
    )
    every = [each for group in groups for each in group]
    return every, scored, whole(subject, runs[0], subject.test)


def curve_groups(
    subject: Subject, order: Heads, sentences: int, draws: int
) -> tuple[list[Curve], ...]:
    """Measured orders of all heads; random ones; and those within a kind."""
    ablation = ascending(ablation_scores(subject, sentences))
    measured = [curve(order, LEVELS, Order.POSITION), curve(ablation, LEVELS, Order.ABLATION),
                curve(order[::-1], LEVELS, Order.REVERSED)]  # fmt: skip
    random = [curve(each, LEVELS, Order.RANDOM, number=number)
              for number, each in enumerate(random_orders(subject.heads, draws))]  # fmt: skip
    alone = [curve(tuple(head for head in order if head.kind is kind), LEVELS, Order.POSITION, kind)
             for kind in subject.kinds]  # fmt: skip
    return measured, random, alone


def _kept(curves: Sequence[Curve], scored: Scored, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per order: share of BLEU kept, mean over levels, with its lead over random orders."""
    measure, found = partial(mean_kept, scored=scored), []
    chance = averaged(measure, curves, Order.RANDOM)
    for (scope, order), levels in rows.groupby(["scope", "order"], sort=False):
        mean = averaged(measure, curves, order, scope)
        numbers = dict(zip(("kept", "low", "high"), interval(mean), strict=True))
        if scope == EVERY:
            lead = interval(mean - chance)
            numbers |= dict(zip(("above_random", "above_low", "above_high"), lead, strict=True))
        free = [harmless(drawn) for _, drawn in levels.groupby("number")]
        found.append({"scope": scope, "order": order, **numbers,
                      "harmless_share": float(np.mean(free))})  # fmt: skip
    return pd.DataFrame(found)


def _claims(
    subject: Subject, curves: Sequence[Curve], scored: Scored
) -> Iterator[dict[str, object]]:
    """Those about decoder self-attention of a model that has it: in students a recurrence stands
    in for it."""

    def mean(order: str) -> Replicates:
        return averaged(partial(mean_kept, scored=scored), curves, order)

    fifth = averaged(partial(kept_at, scored=scored, level=FIFTH), curves, Order.POSITION)
    importance, alone, chance = mean(Order.POSITION), mean(Order.ABLATION), mean(Order.RANDOM)
    bleu = float(scored.bleu[scored.full])
    yield claim("michel-f3-fifth-free", subject, *interval(fifth - 1), bleu)
    yield claim("michel-f3-importance-beats-ablation", subject, *interval(importance - alone),
                float(alone[0]))  # fmt: skip
    yield claim("michel-f3-importance-beats-chance", subject, *interval(importance - chance),
                float(chance[0]))  # fmt: skip
    if Kind.DECODER in subject.kinds:
        at = {kind: averaged(partial(kept_at, scored=scored, level=MOST), curves, Order.POSITION,
                             kind) for kind in subject.kinds}  # fmt: skip
        either = np.minimum(at[Kind.ENCODER], at[Kind.DECODER])
        yield claim("michel-f4-cross-needs-heads", subject, *interval(either - at[Kind.CROSS]),
                    float(at[Kind.CROSS][0]))  # fmt: skip
        yield claim("michel-f4-self-survives", subject, *interval(either))


NAMES = {
    Order.POSITION: "by importance (gradient)",
    Order.ABLATION: "by single-head ablation",
    Order.RANDOM: "random",
    Order.REVERSED: "most important first",
}


def joint(tables: Tables) -> pd.DataFrame:
    """BLEU over the percentage of heads left, per model one curve per order of all heads; of random
    orders mean and range."""
    rows = titled(tables["released"].query("scope == @EVERY"))
    frame = rows.assign(left=100 * (1 - rows["share"]), order=rows["order"].map(NAMES))
    at = frame.groupby(["model", "order", "left"], sort=False)["bleu"]
    drawn = at.agg(value="mean", low="min", high="max").reset_index()
    single = drawn["order"] != NAMES[Order.RANDOM]
    drawn.loc[single, ["low", "high"]] = np.nan
    return drawn


def alone(tables: Tables) -> pd.DataFrame:
    """BLEU over the share pruned of one kind's heads, the other kind left whole, per model."""
    rows = titled(tables["released"].query("scope != @EVERY"))
    found = rows.assign(value=rows["bleu"], share=100 * rows["share"])
    return found[["model", "scope", "share", "value"]]


def means(tables: Tables) -> pd.DataFrame:
    """One row per model and order: mean BLEU kept, the share pruned without significant loss."""
    rows = titled(tables["means"])
    kept = zip(rows["kept"], rows["low"], rows["high"], strict=True)
    lead = zip(rows["above_low"], rows["above_high"], strict=True)
    return pd.DataFrame(
        {
            "model": rows["model"],
            "heads": rows["scope"].replace({EVERY: "all", "cross": "cross-attention",
                                            "decoder": "decoder self-attention"}),
            "order": rows["order"].map(NAMES),
            "BLEU kept": [words.estimate(*each) for each in kept],
            "minus random, points": ["" if np.isnan(low) else words.interval(low, high)
                                     for low, high in lead],
            "free": [words.percent(each) for each in rows["harmless_share"]],
        }
    )  # fmt: skip


def taken(tables: Tables) -> pd.DataFrame:
    """Kinds of attention from which the order of importance takes heads, model by model."""
    rows = titled(tables["released"].query("scope == @EVERY and order == @Order.POSITION"))
    heads = {f"{name} heads": rows[kind] for name, kind in
             (("encoder", "encoder_pruned"), ("cross-attention", "cross_pruned"))}  # fmt: skip
    if "decoder_pruned" in rows:
        own = rows["decoder_pruned"].map("{:.0f}".format, na_action="ignore")
        heads["decoder self-attention heads"] = own.fillna("–")
    return pd.DataFrame(
        {"model": rows["model"], "pruned": [words.percent(each) for each in rows["share"]], **heads,
         "BLEU": [f"{each:.1f}" for each in rows["bleu"]],
         "change": [words.between(*pair) for pair in zip(rows["low"], rows["high"], strict=True)]}
    )  # fmt: skip


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: share of BLEU kept along each order of all heads."""
    rows = tables["kept"].query("scope == @EVERY")
    kept = zip(rows["kept"], rows["low"], rows["high"], strict=True)
    return pd.DataFrame(
        {"model": rows["model"].map(words.model), "order": rows["order"],
         "BLEU kept": [words.estimate(*each) for each in kept],
         "free": [words.percent(each) for each in rows["harmless_share"]]}
    )  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    found: Facts = {}
    if "released" in tables:
        found |= by_model(tables, _of_test)
    if "kept" in tables:
        young = tables["kept"].query("scope == @EVERY").set_index(["order", "model"])["kept"]
        for name, order in (("young_importance", Order.POSITION), ("young_random", Order.RANDOM),
                            ("young_ablation", Order.ABLATION)):  # fmt: skip
            found[name] = words.percent(young.loc[str(order)].mean())
        fifth = small_models(tables["claims"]).query("claim == 'michel-f3-fifth-free'")
        found["young_fifth"] = words.tenths(fifth["value"].mean())
        found["young_models"] = str(tables["kept"]["model"].nunique())
    return found


def _of_test(tables: Tables) -> Facts:
    (one,) = tables["wholes"].to_dict("records")
    rows = tables["released"]
    by = rows.query("scope == @EVERY and order == @Order.POSITION").set_index("level")
    chance = rows.query("scope == @EVERY and order == @Order.RANDOM").groupby("level")["bleu"]
    single = rows.query("scope == @EVERY and order == @Order.ABLATION").set_index("level")["bleu"]
    mean = tables["means"].set_index(["scope", "order"])
    scopes = {kind: rows.query("scope == @kind").set_index("level")["bleu"]
              for kind in ("encoder", "cross")}  # fmt: skip
    found: Facts = {
        "sentences": words.count(one["sentences"]),
        "heads": str(round(by["pruned"].iloc[-1] / by["share"].iloc[-1])),
        "bleu": f"{one['bleu']:.1f}",
        "fifth": words.signed(by.loc[0.2, "difference"]),
        "fifth_interval": words.between(by.loc[0.2, "low"], by.loc[0.2, "high"]),
        "fifth_share": words.tenths(by.loc[0.2, "kept"] - 1),
        "fifth_random": f"{chance.mean().loc[0.2]:.1f}",
        "free": words.percent(mean.loc[(EVERY, Order.POSITION), "harmless_share"]),
        "three_tenths": f"{by.loc[0.3, 'bleu']:.1f}",
        "three_tenths_share": words.percent(0.3),
        "three_tenths_random": f"{chance.mean().loc[0.3]:.1f}",
        "half": f"{by.loc[0.5, 'bleu']:.1f}",
        "half_change": words.difference(*by.loc[0.5, ["difference", "low", "high"]], 1),
        "three_tenths_change": words.difference(*by.loc[0.3, ["difference", "low", "high"]], 1),
        "half_random": f"{chance.mean().loc[0.5]:.1f}",
        "half_ablation": f"{single.loc[0.5]:.1f}",
        "encoder_80": f"{scopes['encoder'].loc[0.8]:.1f}",
        "cross_80": f"{scopes['cross'].loc[0.8]:.1f}",
    }
    for name, order in (("importance", Order.POSITION), ("ablation", Order.ABLATION),
                        ("random", Order.RANDOM), ("reversed", Order.REVERSED)):  # fmt: skip
        row = mean.loc[(EVERY, order)]
        found[name] = words.percent(row["kept"])
        found[f"{name}_lead"] = words.interval(row["above_low"], row["above_high"])
    return found
