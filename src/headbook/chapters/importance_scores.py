"""Every measure of how much a head matters, for every head of a model."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.importance import ImportanceRun, importance
from headbook.artefacts.masked import changes, one_head_out
from headbook.artefacts.model import Heads, TrainedModel, heads_of, primary
from headbook.artefacts.pruning_orders import SCORED_ON, random_orders
from headbook.artefacts.relevance import RelevanceRun, relevance
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.config import Config
from headbook.chapters.measurements import measure, text_of
from headbook.chapters.profile import Pruning
from headbook.heads.importance import Form
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.types import Kind

RELEVANCE = MappingProxyType(
    {
        Variant.SIGNED: "relevance, signed",
        Variant.CODE_2019: "relevance, 2019",
        Variant.CONSTANT_ATTENTION: "relevance, attention constant",
    }
)
CONFIDENCE = "confidence"
IMPORTANCE = ("importance, position", "importance, sentence")
ABLATION, ABLATION_BLEU = "loss without it", "BLEU lost without it"
RANDOM = "random"
VALID_ABLATION, VALID_BLEU = "loss without it, validation", "BLEU lost without it, validation"
"""The names of all measures; ablation is measured on the test set where none is named."""
Scores = Mapping[str, Float[np.ndarray, " head"]]


def importance_scores(model: TrainedModel, config: Config, store: Store) -> Scores:
    """By measure, every head's score in the order of `heads_of`; large for a head that matters.

    Nothing is normalised, so that layers and kinds can be compared. The loss is in nats a target
    token, BLEU in points.
    """
    preset, heads = config.preset.pruning, heads_of(model)
    alone = one_head_out(model, primary(model), preset.translated, store)
    valid = one_head_out(model, SCORED_ON, preset.translated, store)
    return {
        **_relevances(model, heads, preset, store),
        CONFIDENCE: _confidence(model, heads, config, store),
        **_importances(model, heads, preset, store),
        ABLATION: alone.loss[1:] - alone.loss[0],
        ABLATION_BLEU: -changes(alone),
        RANDOM: _at_random(heads),
        VALID_ABLATION: valid.loss[1:] - valid.loss[0],
        VALID_BLEU: -changes(valid),
    }


def _relevances(model: TrainedModel, heads: Heads, preset: Pruning, store: Store) -> Scores:
    """Not normalised: a head's share of the predictions, with its sign where there is one."""
    found = {}
    for variant, name in RELEVANCE.items():
        sums = relevance(model, RelevanceRun(variant, preset.examined), store)
        found[name] = _flat({kind: sums[f"raw/{kind}"].ratio() for kind in Kind}, heads)
    return found


def _confidence(
    model: TrainedModel, heads: Heads, config: Config, store: Store
) -> Float[np.ndarray, " head"]:
    sums = measure(model, text_of(model, HELD_OUT, config, store), store).sums
    return _flat({kind: sums[f"confidence/{kind}"].ratio() for kind in Kind}, heads)


def _importances(model: TrainedModel, heads: Heads, preset: Pruning, store: Store) -> Scores:
    """Michel et al.'s gradient score in both forms, not normalised in the layer."""
    sums = importance(model, ImportanceRun(preset.examined, None, SCORED_ON, ()), store)
    return {
        name: _flat({kind: sums[f"{form}/{kind}"].ratio() for kind in Kind}, heads)
        for form, name in zip((Form.POSITION, Form.SENTENCE), IMPORTANCE, strict=True)
    }


def _flat(
    values: Mapping[Kind, Float[Tensor, "layer head"]], heads: Heads
) -> Float[np.ndarray, " each"]:
    """The score of each head in turn."""
    return np.array([float(values[head.kind][head.layer, head.head]) for head in heads])


def _at_random(heads: Heads) -> Float[np.ndarray, " head"]:
    """A head's place in a random order."""
    order = random_orders(heads, 1)[0]
    return np.array([order.index(head) for head in heads], dtype=float)
