"""Weight on words of some kind, such as words with a sentiment or negations."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import (
    by_layer,
    counted_pairs,
    counted_queries,
    marks_beside,
)
from headbook.types import Kind


class MarkedWeight(HeadMeasure):
    """Weight on marked tokens over what uniform weights would put there, [layer, head].

    Σ_q Σ_{k marked} α_qk / Σ_k α_qk over Σ_q (marked tokens / tokens): 1 is no preference. Special
    tokens count neither as queries nor as keys, so a head that moves weight to them is not taken
    for one that turns away from words. `marks` are by the sentence's index in the corpus, one truth
    value per token that the model reads; sentences without a mark do not count.
    """

    def __init__(
        self,
        marks: Sequence[Tensor],
        kind: Kind = Kind.ENCODER,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(kind, replicates)
        self.marks = marks

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
        pairs = counted_pairs(batch, self.kind)
        there = pairs & marks_beside(batch, self.kind, self.marks)[:, None, :]
        queries = counted_queries(batch, self.kind) & there.any(-1)

        def share(weights: Tensor) -> Tensor:
            seen = [
                weights.masked_fill(~each[:, None, None], 0.0).double().sum(-1)
                for each in (there, pairs)
            ]
            found = seen[0] / seen[1].clamp_min(torch.finfo(torch.float64).tiny)
            return found.masked_fill(~queries[:, None, None], 0.0)

        expected = there.double().sum(-1) / pairs.double().sum(-1).clamp_min(1)
        expected = expected.masked_fill(~queries, 0.0).sum(-1)[:, None, None]
        return by_layer(tape, self.kind, share).sum(-1), expected
