"""The orders in which a model's heads are pruned: measured, random, reversed."""

from collections.abc import Mapping
from enum import StrEnum

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.importance import ImportanceRun, importance
from headbook.artefacts.model import Heads, TrainedModel
from headbook.heads.importance import Form, l2_normalised
from headbook.pruning.ranking import random_order
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.types import Kind

Scores = Mapping[Kind, Float[Tensor, "layer head"]]


SCORED_ON = "valid"
"""Orders by importance and ablation are measured on this set; the work had older test sets."""


class Order(StrEnum):
    """Criterion by which heads are ordered for pruning."""

    POSITION = "importance"
    """As their code has it: absolute value at every position, scored once on the full model."""
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


def random_orders(heads: Heads, number: int) -> list[Heads]:
    """So many random orders of these heads, the same for every model of this shape."""
    return [random_order(heads, derived(each, "order of pruning")) for each in range(number)]
