"""Influence of each input word on each output of a model: by blank-out and by input gradients.

Abnar and Zuidema 2020, section 4: a word is replaced by one that says nothing, or the output is
differentiated by its embedding.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from headbook.corpora.batches import Batch
from headbook.looking.embeddings import embedding
from headbook.models.loaded import Loaded
from headbook.types import Kind

DIRECTIONS = 8
"""Random directions in which a state is differentiated."""


@dataclass(frozen=True)
class Outputs:
    """A model's output for one sentence, for each row of a batch of versions of it.

    Of an encoder: the state of every token, or `pooled` the mean of all. Of a decoder: the
    probabilities of the next token at every position. `kind` is the attention in which outputs and
    inputs meet.
    """

    model: Loaded
    kind: Kind
    pooled: bool = False

    def ids(self, batch: Batch) -> Tensor:
        """The tokens that are blanked: of the source, or of the text where there is no source."""
        return batch.target_in if self.kind is Kind.DECODER else batch.source

    def with_ids(self, batch: Batch, ids: Tensor) -> Batch:
        """As many versions of the sentence as `ids` has rows."""
        many = batch.select(torch.zeros(len(ids), dtype=torch.long, device=ids.device))
        return replace(many, **{"target_in" if self.kind is Kind.DECODER else "source": ids})

    def read(self, batch: Batch) -> Float[Tensor, "batch output width"]:
        """States of an encoder, log-probabilities of a decoder; part of the graph."""
        if self.kind is Kind.ENCODER:
            states = self.model.encoded(batch)
            return states.mean(1, keepdim=True) if self.pooled else states
        return self.model.network(batch).float().log_softmax(-1)

    def change(self, whole: Tensor, other: Tensor) -> Float[Tensor, "batch output"]:
        """1 − cosine of two states; total variation distance of two distributions."""
        if self.kind is Kind.ENCODER:
            return 1 - cosine_similarity(whole, other, dim=-1)
        return (whole.exp() - other.exp()).abs().sum(-1) / 2


@torch.no_grad()
def blank_out(
    outputs: Outputs, batch: Batch, inputs: Bool[Tensor, " token"]
) -> Float[Tensor, "output token"]:
    """The change of every output when one input is replaced by the mask or the unknown token.

    0 for tokens that are no inputs.

    `batch` holds one sentence without padding.
    """
    ids, places = outputs.ids(batch), inputs.nonzero().flatten()
    versions = ids.repeat(len(places), 1)
    versions[torch.arange(len(places)), places] = outputs.model.unknown
    whole = outputs.read(batch)
    changed = outputs.change(whole, outputs.read(outputs.with_ids(batch, versions)))
    found = changed.new_zeros(whole.shape[1], ids.shape[1])
    found[:, places] = changed.T
    return found


def input_gradients(
    outputs: Outputs, batch: Batch, inputs: Bool[Tensor, " token"]
) -> Float[Tensor, "output token"]:
    """Norm of the derivative of every output by each token's embedding; 0 for other tokens.

    Of an encoder, of the state in `DIRECTIONS` random directions (root mean square: the Jacobian's
    Frobenius norm in expectation). Of a decoder, of the log-probability of its likeliest token.
    """
    with torch.no_grad():
        whole = outputs.read(batch)[0]
    count, width = whole.shape
    if outputs.kind is Kind.ENCODER:
        generator = torch.Generator().manual_seed(0)
        wanted = torch.randn(DIRECTIONS * count, width, generator=generator)
    else:
        wanted = nn.functional.one_hot(whole.argmax(-1), width).to(whole.dtype)
    copies = len(wanted) // count
    rows = torch.arange(count).repeat(copies)
    many = outputs.with_ids(batch, outputs.ids(batch).repeat(len(rows), 1))
    with torch.enable_grad(), embedding(outputs.model.network, outputs.ids(many)) as seen:
        read = outputs.read(many)
        total = (read[torch.arange(len(rows)), rows] * wanted).sum()
        (found,) = torch.autograd.grad(total, seen)
    squares = found.square().sum(-1).unflatten(0, (copies, count))
    return squares.mean(0).sqrt() * inputs
