"""A model without one head, or with one head left in a block, beside the whole model."""

import pandas as pd

from headbook.artefacts.masked import Masked
from headbook.artefacts.model import Heads
from headbook.chapters.sixteen._curves import SIGNIFICANT
from headbook.statistics import holm
from headbook.training.paired import enough, paired

FEWEST = 8
"""Heads of which a share is told: as many are significant in Michel et al. 2019, Table 1."""


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


def improving(heads: pd.DataFrame) -> tuple[float, float, float]:
    """Of the heads whose removal changes BLEU significantly after Holm, the share that it helps.

    Its interval is of what the test sentences leave open: heads that are significant before Holm
    alone are counted in at the low end where they are missed, at the high end where they are not.
    `heads` has the columns change and p. NaN for fewer heads than FEWEST.
    """
    helps = heads["change"] > 0
    sure = holm(heads["p"]) < SIGNIFICANT
    perhaps = (heads["p"] < SIGNIFICANT) & ~sure
    count, gained = int(sure.sum()), int((sure & helps).sum())
    if count < FEWEST:
        return float("nan"), float("nan"), float("nan")
    more, less = int((perhaps & helps).sum()), int((perhaps & ~helps).sum())
    return gained / count, gained / (count + less), (gained + more) / (count + more)
