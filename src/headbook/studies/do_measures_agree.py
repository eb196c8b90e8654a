"""Notebook 25: whether the measures of a head's importance agree, and with its removal."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.masked import Masked, MaskedRun, masked
from headbook.artefacts.model import TrainedModel, trained
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import drawn_within, interval, spearman
from headbook.studies.ablations import head_columns
from headbook.studies.agreement_figures import (
    ENCODER,
    EVERY,
    FULL,
    HALVES,
    LEAST_RELEVANT,
    draw_joint,
    draw_matrices,
    draw_with_ablation,
    with_ablation,
)
from headbook.studies.config import Config
from headbook.studies.importance_scores import (
    ABLATION,
    CONFIDENCE,
    IMPORTANCE,
    RANDOM,
    RELEVANCE,
    VALID_ABLATION,
    Scores,
    importance_scores,
)
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.pruning_curves import primary
from headbook.studies.pruning_orders import Heads, heads_of, random_orders
from headbook.studies.results import Tables
from headbook.training.paired import paired, resampled
from headbook.types import Kind

__all__ = ["draw_joint", "draw_matrices", "draw_with_ablation"]

STUDY = "25_do_measures_agree"
MAIN = RELEVANCE[Variant.CODE_2019]
"""The variant of the claims: very probably what made the paper's figures."""


@dataclass(frozen=True)
class Subject:
    """One model: every measure of every head, and what halves of the encoder's heads are worth."""

    trained: TrainedModel
    heads: Heads
    scores: Scores
    halves: tuple[tuple[str, int, Heads], ...]  # (what chose it, number of the draw, heads)
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
        """BLEU without the half that something chose, mean over its draws."""
        at = [1 + place for place, half in enumerate(self.halves) if half[0] == chosen_by]
        return self.replicates[:, at].mean(axis=1)


def _drawn(
    scores: Float[np.ndarray, "measure head"], kinds: list[Kind] | None
) -> Float[np.ndarray, "replicate measure measure"]:
    drawn = drawn_within(kinds or [Kind.ENCODER] * scores.shape[1])
    return spearman(scores[:, drawn].swapaxes(0, 1))


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every head's scores, how they correlate, and what halves of the encoder's heads cost."""
    store = store or Store.default()
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
    """One row a head and measure."""
    tables = [
        head_columns(each.heads).assign(measure=name, score=values)
        for name, values in each.scores.items()
    ]
    return stacked(tables).assign(**each.labels)


def _agreement(each: Subject) -> Iterator[dict[str, object]]:
    """One row a scope and pair of measures; intervals are over the heads."""
    names = list(each.scores)
    for scope, found in each.correlations.items():
        heads = len(each.heads) if scope == EVERY else each.kinds.count(Kind.ENCODER)
        for at, first in enumerate(names):
            for to, second in enumerate(names[:at]):
                value, low, high = interval(found[:, at, to])
                yield {**each.labels, "scope": scope, "first": second, "second": first,
                       "value": value, "low": low, "high": high, "heads": heads}  # fmt: skip


def _joint(each: Subject) -> Iterator[dict[str, object]]:
    """One row a half: BLEU without it, and whether its heads are missed more than one by one."""
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


def with_ablation_table(tables: Tables) -> pd.DataFrame:
    """Every measure's correlation with single-head ablation, with its interval over heads."""
    return with_ablation(tables)


def joint_table(tables: Tables) -> pd.DataFrame:
    """What each half of the encoder's heads costs, beside the sum of its heads one by one."""
    shown = ["model", "chosen_by", "removed", "bleu", "difference", "low", "high", "p",
             "loss_added_nats", "one_by_one_nats"]  # fmt: skip
    return tables["joint"][shown]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    models = tables["joint"]["model"].unique()
    return " ".join(_read_model(name, tables) for name in models)


def _read_model(name: str, tables: Tables) -> str:
    agreement = with_ablation(tables).query("model == @name").set_index(["scope", "measure"])
    pairs = tables["agreement"].query("model == @name and scope == @ENCODER")
    pairs = pairs.set_index(["first", "second"])["value"]
    signed, main, constant = RELEVANCE.values()
    found = ", ".join(
        f"{_correlation(agreement.loc[(ENCODER, measure)])} ({measure})"
        for measure in (*RELEVANCE.values(), CONFIDENCE, IMPORTANCE[0])
    )
    return (
        f"{name}: over the encoder heads, Spearman's correlation with the loss when the head alone "
        f"is removed is {found}; ablation itself, measured on other sentences, reaches "
        f"{_correlation(agreement.loc[(ENCODER, VALID_ABLATION)])}, a random score "
        f"{_correlation(agreement.loc[(ENCODER, RANDOM)])}. Over the heads of all kinds importance "
        f"reaches {_correlation(agreement.loc[(EVERY, IMPORTANCE[0])])}. The variants of relevance "
        f"agree with that of 2019 by {_signed(pairs[signed, main])} (signed) and "
        f"{_signed(pairs[main, constant])} (attention constant). "
        f"{_read_halves(tables['joint'].query('model == @name'))}"
    )


def _read_halves(joint: pd.DataFrame) -> str:
    mean = joint.groupby("chosen_by")[["bleu", "loss_added_nats", "one_by_one_nats"]].mean()
    if mean.loc[FULL, "bleu"] == 0:
        return "The whole model translates nothing, so halves of its heads cannot cost BLEU."
    least = ", ".join(
        f"{mean.loc[chosen_by, 'bleu']:.1f} ({chosen_by})" for chosen_by in (*HALVES, RANDOM)
    )
    together, singly = mean.loc[LEAST_RELEVANT, ["loss_added_nats", "one_by_one_nats"]]
    return (
        f"Of BLEU {mean.loc[FULL, 'bleu']:.1f}, removing half of every encoder layer leaves "
        f"{least}. The least relevant halves add {together:.2f} nats together where their heads "
        f"one by one add up to {singly:.2f}."
    )


def _correlation(row: pd.Series) -> str:
    if np.isnan(row["value"]):
        return "no number"
    return f"{_signed(row['value'])} [{_signed(row['low'])}, {_signed(row['high'])}]"


def _signed(value: float) -> str:
    return f"{value:+.2f}" if value == value else "no number"
