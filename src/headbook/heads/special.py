"""Weight on special tokens: EOS, [CLS], [SEP], a start token, or a sink."""

from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import HeadMeasure
from headbook.heads.recording import Recording
from headbook.heads.tokens import (
    by_layer,
    counted_pairs,
    counted_queries,
)
from headbook.text.batches import Batch


class SpecialWeight(HeadMeasure):
    """Mean over real query tokens of the weight on special keys, [layer, head], between 0 and 1.

    Weight on no key at all counts too: rows of models with attention sinks sum to less than 1.
    What is left, 1 minus this, is all that the measures of real tokens see.
    """

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head"], Float[Tensor, "batch 1 1"]]:
        queries = counted_queries(batch, self.kind)
        pairs = counted_pairs(batch, self.kind)[:, None, None]

        def swallowed(weights: Tensor) -> Tensor:
            on_real = weights.masked_fill(~pairs, 0.0).double().sum(-1)
            return (1 - on_real).masked_fill(~queries[:, None, None], 0.0)

        found = by_layer(tape, self.kind, swallowed)
        return found.sum(-1), queries.double().sum(-1)[:, None, None]
