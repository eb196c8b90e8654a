"""A model without one head, or with one head left in a block, beside the whole model."""

import pandas as pd

from headbook.artefacts.masked import Masked
from headbook.artefacts.model import Heads
from headbook.chapters.sixteen._curves import SIGNIFICANT
from headbook.training.paired import enough, paired


def head_columns(heads: Heads) -> pd.DataFrame:
    """Kind, layer and head, one row per head; layers and heads count from one."""
    rows = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    return pd.DataFrame(rows, columns=["kind", "layer", "head"])


def compared(found: Masked) -> pd.DataFrame:
    """One row per mask but the first: BLEU, its change, interval and p of the change, loss added.

    The interval and p are of a paired bootstrap over sentences; `significant` is p below the work's
    level.
    """
    rows = []
    samples = enough(len(found.bleu) - 1, SIGNIFICANT)
    for number in range(1, len(found.bleu)):
        test = paired(found.statistics[number], found.statistics[0], samples)
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
