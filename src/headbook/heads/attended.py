"""A head's weight by kind of token: neighbours, itself, special tokens, punctuation."""

from collections.abc import Sequence
from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording, once
from headbook.heads.tokens import REAL_TOKENS, by_layer, counted_queries, marks_beside
from headbook.types import Kind, UserError


class Attended(StrEnum):
    """Kinds of key, in the order of the measure's last axis. They overlap: a neighbour may be a
    full stop, so the weights on them do not sum to one."""

    PREVIOUS = "previous"
    NEXT = "next"
    OWN = "own"
    FIRST_SPECIAL = "first special"  # [CLS]; none where a sentence ends in its only special token
    LAST_SPECIAL = "last special"  # [SEP] or EOS
    PUNCTUATION = "punctuation"


class AttendedWeight(HeadMeasure):
    """Mean over real query tokens of the weight on each kind of key, [layer, head, Attended].

    Clark et al. 2019, section 3, who count special tokens as queries as well; here they are not,
    as sentences are short. `punctuation` says of each sentence's tokens, special ones included,
    whether they are signs. Encoder self-attention only; UserError for another kind.
    """

    def __init__(
        self,
        punctuation: Sequence[Bool[Tensor, " _"]],
        kind: Kind = Kind.ENCODER,
        replicates: int = REPLICATES,
    ) -> None:
        if kind is not Kind.ENCODER:
            raise UserError(f"kinds of key are distinguished for encoders, not for {kind}")
        super().__init__(kind, replicates)
        self.punctuation = punctuation

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head kind"], Float[Tensor, "batch 1 1 1"]]:
        queries = counted_queries(batch, self.kind, REAL_TOKENS)
        kinds = once(tape, (AttendedWeight, id(self.punctuation)), lambda: self._kinds(batch))
        kinds = kinds.double() * queries[:, None, :, None]

        def on_each(weights: Float[Tensor, "batch 1 head query key"]) -> Tensor:
            return torch.einsum("blhqk,bcqk->blhc", weights.double(), kinds)

        return by_layer(tape, self.kind, on_each), queries.double().sum(-1)[:, None, None, None]

    def _kinds(self, batch: Batch) -> Bool[Tensor, "batch kind query key"]:
        """True where a key is of the kind for the query."""
        special, length = batch.source_boundary, batch.source.shape[1]
        ends = special & (special.flip(1).cumsum(1).flip(1) == 1)
        signs = marks_beside(batch, self.kind, self.punctuation)
        place = torch.eye(length, dtype=torch.bool, device=special.device)
        near = [place.roll(-1, 1).tril(), place.roll(1, 1).triu(), place]
        keys = [_starts(special), ends, signs & ~special]
        square = [each.expand(len(batch), -1, -1) for each in near]
        square += [each[:, None, :].expand(-1, length, -1) for each in keys]
        return torch.stack(square, dim=1)


def _starts(special: Bool[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """The first token of each sentence where it is special and not the last special one, too."""
    first = torch.zeros_like(special)
    first[:, 0] = special[:, 0] & (special.sum(1) > 1)
    return first
