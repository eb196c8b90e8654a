"""A model without one head, or with one head left in a block, beside the whole model."""

import numpy as np
import pandas as pd

from headbook.artefacts.masked import Masked, MaskedRun, masked
from headbook.artefacts.model import TrainedModel
from headbook.runs.store import Store
from headbook.studies.pruning_curves import SIGNIFICANT
from headbook.studies.pruning_orders import Heads, heads_of
from headbook.training.paired import paired
from headbook.types import Kind

KIND_NAMES = {
    Kind.ENCODER: "encoder self-attention",
    Kind.DECODER: "decoder self-attention",
    Kind.CROSS: "cross-attention",
}


def one_head_out(
    trained: TrainedModel, test: str, sentences: int, store: Store, corpus: str | None = None
) -> Masked:
    """The whole model, and then the model without each of its heads, in the order of `heads_of`."""
    masks = ((), *((head,) for head in heads_of(trained)))
    return masked(trained, MaskedRun(test, sentences, masks, corpus=corpus), store)


def changes(found: Masked) -> np.ndarray:
    """BLEU of every mask but the first less that of the first, the whole model."""
    return found.bleu[1:] - found.bleu[0]


def head_columns(heads: Heads) -> pd.DataFrame:
    """Kind, layer and head, one row a head; layers and heads count from one."""
    rows = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    return pd.DataFrame(rows, columns=["kind", "layer", "head"])


def compared(found: Masked) -> pd.DataFrame:
    """One row a mask but the first: BLEU, its change, interval and p of the change, loss added.

    The interval and p are of a paired bootstrap over sentences; `significant` is p below the work's
    level.
    """
    rows = []
    for number in range(1, len(found.bleu)):
        test = paired(found.statistics[number], found.statistics[0])
        rows.append(
            {
                "bleu": float(found.bleu[number]),
                "change": test.difference,
                "low": test.low,
                "high": test.high,
                "p": test.p,
                "significant": test.p < SIGNIFICANT,
                "loss_added_nats": float(found.loss[number] - found.loss[0]),
            }
        )
    return pd.DataFrame(rows).assign(whole_bleu=float(found.bleu[0]))
