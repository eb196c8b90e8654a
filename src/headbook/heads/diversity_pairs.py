"""Similarity of two heads' vectors at the same token: cosines, averaged over a text."""

from collections.abc import Sequence

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from headbook.heads.diversity_grams import counted_tokens, sentence_means, unit
from headbook.heads.measure import REPLICATES, HeadMeasure
from headbook.heads.recording import Recording
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

Pairs = Float[Tensor, "*layer head other"]


class PairCosine(HeadMeasure):
    """Mean over tokens of the cosine between two heads' vectors, [layer, head, head].

    `point` VALUES and CONTEXT are what Li et al. 2018 call subspace and output. With `projections`,
    W_O of every layer as [head, dim, model], the contexts become the heads' true outputs
    C_h W_O^h. The cosine is scale-free; 1 on the diagonal. A token whose vector is zero has 0.
    """

    def __init__(
        self,
        kind: Kind,
        point: Point = Point.CONTEXT,
        projections: Sequence[Float[Tensor, "head dim model"]] | None = None,
        replicates: int = REPLICATES,
    ) -> None:
        super().__init__(kind, replicates)
        if projections is not None and point is not Point.CONTEXT:
            raise UserError(f"outputs of heads are made of contexts; {point} has no projection")
        self.point, self.projections = point, projections

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head other"], Float[Tensor, "batch 1 1 1"]]:
        counted = counted_tokens(batch, self.kind, self.point)
        cosines = torch.stack(
            [_cosines(each, counted) for each in self._vectors(tape)],
            dim=1,
        )
        return cosines, counted.double().sum(1)[:, None, None, None]

    def _vectors(self, tape: Recording) -> list[Float[Tensor, "batch head token dim"]]:
        vectors = tape[self.kind, self.point]
        if self.projections is None:
            return vectors
        return [
            torch.einsum("bhtd,hdm->bhtm", each, weight.to(each))
            for each, weight in zip(vectors, self.projections, strict=True)
        ]


class SliceCosine(HeadMeasure):
    """Mean cosine between slices of the block's output, one as wide as a head for each head.

    The X-raying article's notebook takes these slices for the heads' outputs, but the output
    projection has mixed all heads, so slice h is not head h's output. For that see `PairCosine`.
    """

    point = Point.OUTPUT

    def __init__(self, kind: Kind, heads: int, replicates: int = REPLICATES) -> None:
        super().__init__(kind, replicates)
        self.heads = heads

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head other"], Float[Tensor, "batch 1 1 1"]]:
        counted = counted_tokens(batch, self.kind, Point.CONTEXT)
        slices = [
            rearrange(each, "batch token (head dim) -> batch head token dim", head=self.heads)
            for each in tape[self.kind, self.point]
        ]
        cosines = torch.stack([_cosines(each, counted) for each in slices], dim=1)
        return cosines, counted.double().sum(1)[:, None, None, None]


class SentenceCosine(HeadMeasure):
    """Mean over sentences of cos² between two heads' contexts, [layer, head, head].

    ‖CᵀC - I‖_F² of Lee et al. 2019, equation 4, pair by pair; they make it small. A sentence's
    context is the mean over its tokens, as the work has one vector a sample.
    """

    point = Point.CONTEXT

    def contributions(
        self, tape: Recording, batch: Batch
    ) -> tuple[Float[Tensor, "batch layer head other"], Float[Tensor, "batch 1 1 1"]]:
        means = sentence_means(tape, batch, self.kind)
        units = [unit(each) for each in means]
        cosines = torch.stack([torch.einsum("bhd,bgd->bhg", each, each) for each in units], dim=1)
        return cosines.square(), torch.ones_like(cosines[:, :1, :1, :1])


def dissimilarity(cosines: Pairs) -> Pairs:
    """Minus the cosine, 0 on the diagonal: the article's output dissimilarity, -1 to 1."""
    return torch.diag_embed(cosines.diagonal(dim1=-2, dim2=-1)) - cosines


def disagreement(cosines: Pairs) -> Float[Tensor, "*layer"]:
    """-1/H² Σ_ij, over all pairs and i = j: of cosines or of overlaps (Li et al. 2018)."""
    return -cosines.mean((-2, -1))


def mean_of_pairs(pairs: Pairs) -> Float[Tensor, "*layer"]:
    """The mean over i ≠ j; NaN for a single head."""
    others = ~torch.eye(pairs.shape[-1], dtype=torch.bool, device=pairs.device)
    return pairs[..., others].mean(-1)


def _cosines(
    vectors: Float[Tensor, "batch head token dim"], counted: Tensor
) -> Float[Tensor, "batch head other"]:
    """Summed over the tokens that count."""
    kept = vectors.masked_fill(~counted[:, None, :, None], 0.0).double()
    units = unit(kept)
    return torch.einsum("bhtd,bgtd->bhg", units, units)
