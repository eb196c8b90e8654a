"""Confidence: how much weight a head puts on its favourite key."""

from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import counted_queries, favourites
from headbook.text.batches import Batch


class Confidence(HeadMeasure):
    """Mean over query tokens of the largest weight, [layer, head], between 0 and 1.

    Voita et al. 2019, section 4: mean of max_j a_ij with EOS left out (footnote 2). The mean is
    over all query tokens of the corpus, so a long sentence weighs more than a short one.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
        queries = counted_queries(batch, self.kind)
        top = favourites(tape, batch, self.kind).weight
        # Filled, not multiplied: what rows of padding hold need not be a number.
        counted = top.masked_fill(~queries[:, None, None], 0.0)
        return counted.double().sum(-1), queries.double().sum(-1)[:, None, None]
