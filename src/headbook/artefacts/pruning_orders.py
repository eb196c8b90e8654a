"""The orders in which a model's heads are pruned: measured, re-estimated, random, reversed."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.importance import ImportanceRun, importance
from headbook.artefacts.masked import MaskedRun, masked
from headbook.artefacts.model import Heads, TrainedModel, heads_of
from headbook.heads.importance import Form, l2_normalised
from headbook.pruning.ranking import ascending, counts, random_order
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.types import HeadId, Kind

Scores = Mapping[Kind, Float[Tensor, "layer head"]]


SCORED_ON = "valid"
"""Orders by importance and ablation are measured on this set; the work had older test sets."""


class Order(StrEnum):
    """Criterion by which heads are ordered for pruning."""

    POSITION = "importance"
    """As their code has it: absolute value at every position, scored once on the full model."""
    SENTENCE = "importance, a sentence at a time"
    """As their formula has it: absolute value of each sentence's sum."""
    EXACT = "importance, re-estimated"
    """Measured again on the pruned model before every step; they call it exact."""
    ABLATION = "single-head ablation"
    RANDOM = "random"
    REVERSED = "most important first"


def importances(
    trained: TrainedModel,
    sentences: int,
    store: Store,
    form: Form = Form.POSITION,
    update: int | None = None,
    closed: Heads = (),
) -> Scores:
    """I_h of every head, l2-normalised in its layer (Michel et al. 2019, section 4.1).

    Estimated on the model without the `closed` heads, which score −∞: they went before all others.
    """
    run = ImportanceRun(sentences, update, SCORED_ON, tuple(sorted(closed)))
    sums = importance(trained, run, store)
    scores = {}
    for kind in Kind:
        raw = sums[f"{form}/{kind}"].ratio()
        gone = torch.zeros_like(raw, dtype=torch.bool)
        for head in closed:
            if head.kind == kind:
                gone[head.layer, head.head] = True
        scores[kind] = l2_normalised(raw.masked_fill(gone, 0)).masked_fill(gone, -torch.inf)
    return scores


def reestimated(
    trained: TrainedModel, sentences: int, levels: Sequence[float], store: Store
) -> Heads:
    """The order that grows level by level, importance measured anew before every step.

    It ends at the highest level: heads beyond it were never ranked.
    """
    order: Heads = ()
    for count in sorted(set(counts(len(heads_of(trained)), levels))):
        if count > len(order):
            scores = importances(trained, sentences, store, closed=order)
            order += ascending(scores)[len(order) : count]
    return order


def ablation_scores(trained: TrainedModel, sentences: int, store: Store) -> Scores:
    """The BLEU that the validation set loses without one head, for every head."""
    heads = heads_of(trained)
    run = MaskedRun(SCORED_ON, sentences, ((), *((head,) for head in heads)))
    bleu = torch.as_tensor(masked(trained, run, store).bleu)
    lost = dict(zip(heads, (bleu[0] - bleu[1:]).tolist(), strict=True))
    return {kind: _by_layer(lost, kind) for kind in dict.fromkeys(head.kind for head in heads)}


def _by_layer(values: Mapping[HeadId, float], kind: Kind) -> Float[Tensor, "layer head"]:
    of_kind = {head: value for head, value in values.items() if head.kind == kind}
    layers = 1 + max(head.layer for head in of_kind)
    return torch.tensor(list(of_kind.values()), dtype=torch.float64).reshape(layers, -1)


def random_orders(heads: Heads, number: int) -> list[Heads]:
    """So many random orders of these heads, the same for every model of this shape."""
    return [random_order(heads, derived(each, "order of pruning")) for each in range(number)]
