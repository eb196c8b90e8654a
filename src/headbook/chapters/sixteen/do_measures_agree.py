"""Page 25: whether measures of a head's importance agree, with each other and with its removal."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.masked import Masked, MaskedRun, masked
from headbook.artefacts.model import Heads, TrainedModel, heads_of, primary, trained
from headbook.artefacts.pruning_orders import random_orders
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.importance_scores import (
    ABLATION,
    CONFIDENCE,
    IMPORTANCE,
    RANDOM,
    RELEVANCE,
    VALID_ABLATION,
    Scores,
    importance_scores,
)
from headbook.chapters.sixteen import _said
from headbook.chapters.sixteen._ablations import head_columns
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.chapters.trained import Parsed, at_profile
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import drawn_within, interval, resampled_within_layers, spearman
from headbook.training.paired import paired, resampled
from headbook.types import Kind

NUMBER = 25
TITLE = "Do measures of importance agree?"
WORK = "michel2019"
KEYS = ("model", "scope", "measure", "weights", "sentences")

ENCODER, EVERY = "encoder", "all kinds"
"""Whose heads are compared."""
MAIN = RELEVANCE[Variant.CODE_2019]
"""The variant of the claims: very probably the one of the paper's figures."""
FULL, LEAST_RELEVANT, MOST_RELEVANT = "none", "least relevant", "most relevant"
HALVES = MappingProxyType(
    {
        LEAST_RELEVANT: (RELEVANCE[Variant.CODE_2019], 1),
        "least relevant, signed": (RELEVANCE[Variant.SIGNED], 1),
        "least relevant, attention constant": (RELEVANCE[Variant.CONSTANT_ATTENTION], 1),
        "least important": (IMPORTANCE[0], 1),
        "least confident": (CONFIDENCE, 1),
        "least missed alone": (VALID_ABLATION, 1),
        MOST_RELEVANT: (RELEVANCE[Variant.CODE_2019], -1),
    }
)
"""Choices of half of every encoder layer: by which measure, and from which end."""
NAMES = MappingProxyType(
    {
        MAIN: "relevance, rules of 2019",
        RELEVANCE[Variant.SIGNED]: "relevance, signed",
        RELEVANCE[Variant.CONSTANT_ATTENTION]: "relevance, constant attention",
        CONFIDENCE: "confidence",
        IMPORTANCE[0]: "importance, per position",
        IMPORTANCE[1]: "importance, per sentence",
        VALID_ABLATION: "ablation, other sentences",
        RANDOM: "random order",
    }
)
"""Measures as figures name them, in their order there."""
COMPARED = (MAIN, CONFIDENCE, IMPORTANCE[0])


@dataclass(frozen=True)
class Parameters(Parsed):
    """And released models, a text for each of their languages, how many of its sentences the heads
    read, on how many of these each is removed in turn (0: removal as published), and on how many
    those of a null network are (0: none)."""

    models: tuple[str, ...] = ("minilm",)
    texts: tuple[str, ...] = ("ewt-sample", "ud-pud-pt")
    read: int = 80
    ablated: int = 0
    nulls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Information of released heads; at a profile, every measure of every head of its models."""
    own = ("models", "texts", "read", "ablated", "nulls")
    found = at_profile(parameters, store, trained_here, released=own)
    return found or _said.said(*(getattr(parameters, name) for name in own))


@dataclass(frozen=True)
class Subject:
    """One model: every measure of every head, and BLEU without halves of the encoder's heads."""

    trained: TrainedModel
    heads: Heads
    scores: Scores
    halves: tuple[tuple[str, int, Heads], ...]  # (the choice, number of the draw, heads)
    joint: Masked  # the whole model, then the halves

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.trained)

    @cached_property
    def kinds(self) -> list[Kind]:
        return [head.kind for head in self.heads]

    @cached_property
    def correlations(self) -> dict[str, Float[np.ndarray, "replicate measure measure"]]:
        """By scope: of the heads as they are, and of heads drawn again within their kind."""
        every = np.stack(list(self.scores.values()))
        return {
            ENCODER: _drawn(every[:, [kind == Kind.ENCODER for kind in self.kinds]], None),
            EVERY: _drawn(every, self.kinds),
        }

    def correlation(
        self, scope: str, first: str, second: str = ABLATION
    ) -> tuple[float, float, float]:
        names = list(self.scores)
        return interval(self.correlations[scope][:, names.index(first), names.index(second)])

    @cached_property
    def replicates(self) -> Float[np.ndarray, "replicate mask"]:
        """BLEU of the joint masks on the same resampled sentences; row 0 is the plain BLEU."""
        drawn = np.column_stack([resampled(each) for each in self.joint.statistics])
        return np.vstack([self.joint.bleu, drawn])

    def of(self, chosen_by: str) -> Float[np.ndarray, " replicate"]:
        """BLEU without the halves of this choice, mean over its draws."""
        at = [1 + place for place, half in enumerate(self.halves) if half[0] == chosen_by]
        return self.replicates[:, at].mean(axis=1)


def _drawn(
    scores: Float[np.ndarray, "measure head"], kinds: list[Kind] | None
) -> Float[np.ndarray, "replicate measure measure"]:
    drawn = drawn_within(kinds or [Kind.ENCODER] * scores.shape[1])
    return spearman(scores[:, drawn].swapaxes(0, 1))


def trained_here(config: Config, store: Store) -> Tables:
    """Every head's scores, their correlations, and BLEU without halves of the encoder's heads."""
    subjects = [_subject(trained(run, store), config, store) for run in config.examined_models()]
    return {
        "heads": stacked(_heads(each) for each in subjects),
        "agreement": pd.DataFrame([row for each in subjects for row in _agreement(each)]),
        "joint": pd.DataFrame([row for each in subjects for row in _joint(each)]),
        "claims": pd.DataFrame([row for each in subjects for row in _claims(each)]),
    }


def _subject(model: TrainedModel, config: Config, store: Store) -> Subject:
    preset, heads, test = config.preset.pruning, heads_of(model), primary(model)
    scores = importance_scores(model, config, store)
    halves = tuple(_halves(heads, scores, preset.orders))
    masks = ((), *(half for _, _, half in halves))
    joint = masked(model, MaskedRun(test, preset.translated, masks), store)
    return Subject(model, heads, scores, halves, joint)


def _halves(heads: Heads, scores: Scores, draws: int) -> Iterator[tuple[str, int, Heads]]:
    """Half of every encoder layer's heads (rounded down), as each measure or chance chooses it."""
    encoder = tuple(head for head in heads if head.kind == Kind.ENCODER)
    for chosen_by, (name, sign) in HALVES.items():
        score = dict(zip(heads, sign * scores[name], strict=True))
        order = sorted(encoder, key=lambda head: _key(score[head]))
        yield chosen_by, 0, half(tuple(order))
    for number, order in enumerate(random_orders(encoder, draws)):
        yield RANDOM, number, half(order)


def _key(score: float) -> tuple[bool, float]:
    """Heads without a score come last."""
    return (True, 0.0) if np.isnan(score) else (False, float(score))


def half(order: Heads) -> Heads:
    """The first half of every layer's heads, in this order of all; rounded down."""
    layers = {head.layer for head in order}
    of_layer = {layer: [head for head in order if head.layer == layer] for layer in layers}
    return tuple(sorted(head for each in of_layer.values() for head in each[: len(each) // 2]))


def _heads(each: Subject) -> pd.DataFrame:
    """One row per head and measure."""
    tables = [
        head_columns(each.heads).assign(measure=name, score=values)
        for name, values in each.scores.items()
    ]
    return stacked(tables).assign(**each.labels)


def _agreement(each: Subject) -> Iterator[dict[str, object]]:
    """One row per scope and pair of measures; intervals are over the heads."""
    names = list(each.scores)
    for scope, found in each.correlations.items():
        heads = len(each.heads) if scope == EVERY else each.kinds.count(Kind.ENCODER)
        for at, first in enumerate(names):
            for to, second in enumerate(names[:at]):
                value, low, high = interval(found[:, at, to])
                yield {**each.labels, "scope": scope, "first": second, "second": first,
                       "value": value, "low": low, "high": high, "heads": heads}  # fmt: skip


def _joint(each: Subject) -> Iterator[dict[str, object]]:
    """One row per half: BLEU without it, loss added together and summed head by head."""
    alone = dict(zip(each.heads, each.scores[ABLATION], strict=True))
    rows = [(FULL, 0, ()), *each.halves]
    for at, (chosen_by, number, heads) in enumerate(rows):
        test = paired(each.joint.statistics[at], each.joint.statistics[0])
        yield {
            **each.labels, "chosen_by": chosen_by, "number": number, "removed": len(heads),
            "bleu": float(each.joint.bleu[at]), "difference": test.difference, "low": test.low,
            "high": test.high, "p": test.p if at else 1.0,
            "loss_added_nats": float(each.joint.loss[at] - each.joint.loss[0]),
            "one_by_one_nats": float(sum(alone[head] for head in heads)),
        }  # fmt: skip


def _claims(each: Subject) -> Iterator[dict[str, object]]:
    for claim, scope, name in (
        ("voita-s4-relevance-agrees-with-ablation", ENCODER, MAIN),
        ("voita-s4-confidence-agrees-with-ablation", ENCODER, CONFIDENCE),
        ("michel-s4-importance-agrees-with-ablation", EVERY, IMPORTANCE[0]),
    ):
        yield claim_row(claim, each.labels, *each.correlation(scope, name))
    chance = each.of(RANDOM)
    above = interval(each.of(LEAST_RELEVANT) - chance)
    claim = "voita-s4-least-relevant-can-go-together"
    yield claim_row(claim, each.labels, *above, baseline=float(chance[0]))


def with_ablation(tables: Tables, scope: str = ENCODER) -> pd.DataFrame:
    """Every measure's correlation with the rise of the loss when the head alone is removed.

    One row per measure and model (there is one per corpus), in the order of NAMES.
    """
    rows = tables["agreement"].query("scope == @scope")
    rows = rows[(rows["first"] == ABLATION) | (rows["second"] == ABLATION)]
    other = rows["first"].where(rows["second"] == ABLATION, rows["second"])
    found = rows[["value", "low", "high"]].assign(corpus=rows["corpus"], key=other)
    order = {name: place for place, name in enumerate(NAMES)}
    found = found[found["key"].isin(order)].sort_values("key", key=lambda key: key.map(order),
                                                        kind="stable")  # fmt: skip
    return found.assign(measure=found["key"].map(NAMES)).reset_index(drop=True)


def with_removal(tables: Tables, weights: str = _said.RELEASED) -> pd.DataFrame:
    """The same of released heads, with what they say of the tokens they read."""
    return _said.with_removal(tables, weights)


def with_each_other(tables: Tables) -> pd.DataFrame:
    """Correlations of relevance, confidence and importance over encoder heads, model by model."""
    rows = tables["agreement"].query("scope == @ENCODER")
    rows = rows[rows["first"].isin(COMPARED) & rows["second"].isin(COMPARED)]
    cells = [_correlation(row) for row in rows.to_dict("records")]
    pairs = rows["first"].map(NAMES) + " – " + rows["second"].map(NAMES)
    found = pd.DataFrame({"measures": pairs, "corpus": rows["corpus"], "": cells})
    wide = found.pivot(index="measures", columns="corpus", values="")
    return wide.reset_index().rename_axis(columns=None)


def within(tables: Tables) -> pd.DataFrame:
    """Correlations with removal within encoder layers, mean over them: one row per measure, model.

    Over all heads of the encoder a measure also agrees where both are larger in some layers.
    """
    rows = []
    for model, own in tables["heads"].query("kind == @Kind.ENCODER").groupby("model", sort=False):
        scores = {name: each.pivot(index="layer", columns="head", values="score").to_numpy()
                  for name, each in own.groupby("measure")}  # fmt: skip
        for name in (*COMPARED, VALID_ABLATION):
            value, low, high = interval(resampled_within_layers(scores[name], scores[ABLATION]))
            rows.append({"model": model, "key": name, "value": value, "low": low, "high": high})
    return pd.DataFrame(rows)


def halves(tables: Tables) -> pd.DataFrame:
    """BLEU lost without half of every encoder layer, one row per choice and model.

    Of random halves: the mean, from the smallest to the largest loss.
    """
    rows = tables["joint"].query("chosen_by != @FULL")
    drawn = rows.groupby(["corpus", "chosen_by"], sort=False)["difference"]
    chance = drawn.agg(value="mean", low="min", high="max")
    alone = rows[rows["chosen_by"] != RANDOM].rename(columns={"difference": "value"})
    alone = alone.set_index(["corpus", "chosen_by"])[["value", "low", "high"]]
    found = pd.concat([alone, chance[chance.index.get_level_values(1) == RANDOM]]).reset_index()
    return found.assign(chosen_by=found["chosen_by"].replace(RANDOM, "at random"))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, the models in the order of the tables."""
    rows = tables["agreement"].set_index(["model", "scope", "first", "second"]).sort_index()
    claims = tables["claims"].set_index(["claim", "model"])
    pairs = tables["agreement"].query("scope == @ENCODER")
    pairs = pairs[pairs["first"].isin(COMPARED) & pairs["second"].isin(COMPARED)]
    found: Facts = {"least_pair": words.signed(pairs["value"].min())}
    layers = within(tables).set_index(["model", "key"])
    for place, model in enumerate(dict.fromkeys(tables["joint"]["model"]), start=1):
        for name, claim in {
            "relevance": "voita-s4-relevance-agrees-with-ablation",
            "confidence": "voita-s4-confidence-agrees-with-ablation",
            "importance": "michel-s4-importance-agrees-with-ablation",
            "halves": "voita-s4-least-relevant-can-go-together",
        }.items():
            found[f"{name}_{place}"] = _correlation(claims.loc[(claim, model)])
        for name, key in {"relevance": MAIN, "confidence": CONFIDENCE, "importance": IMPORTANCE[0],
                          "ceiling": VALID_ABLATION}.items():  # fmt: skip
            found[f"within_{name}_{place}"] = _correlation(layers.loc[(model, key)])
        encoder = rows.loc[(model, ENCODER)]
        found[f"model_{place}"] = words.model(model)
        found[f"ceiling_{place}"] = _correlation(encoder.loc[(ABLATION, VALID_ABLATION)])
        found[f"chance_{place}"] = _correlation(encoder.loc[(ABLATION, RANDOM)])
        found[f"heads_{place}"] = str(encoder["heads"].iloc[0])
    found["draws"] = str(tables["joint"].query("chosen_by == @RANDOM")["number"].nunique())
    return found | (_said.facts(tables) if "said" in tables else {})


def _correlation(row: pd.Series | dict) -> str:
    return words.difference(row["value"], row["low"], row["high"])
