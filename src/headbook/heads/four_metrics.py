"""The X-raying article's four metrics together, each raw and scale-free, for one kind of attention.

What each of them is stands in diversity_grams.py, diversity_pairs.py and diversity_maps.py.
"""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.collect import Measure, collect
from headbook.heads.diversity_grams import HeadGrams
from headbook.heads.diversity_maps import MapVariance, QueryDependence
from headbook.heads.diversity_pairs import PairCosine, SliceCosine, dissimilarity, projections
from headbook.models.capture import Point
from headbook.models.transformer import Transformer
from headbook.types import Kind, UserError

RAW, FREE = "raw", "scale-free"
ORTHOGONALITY = "query orthogonality"
NON_ORTHOGONALITY = "context non-orthogonality"
DISSIMILARITY = "output dissimilarity"
ATTENTION = "attention diversity"
ARTICLE = (ORTHOGONALITY, NON_ORTHOGONALITY, DISSIMILARITY, ATTENTION)
"""The article's four."""

Found = Mapping[tuple[str, str], Float[Tensor, "layer head ..."]]
"""By metric and form: [layer, head, head] of pairs, [layer, head] of attention diversity."""


def head_outputs(model: Transformer, kind: Kind) -> list[Float[Tensor, "head dim model"]]:
    """W_O of every layer, split by head: what turns a head's context into its true output."""
    blocks = [block for found, _, block in model.attentions() if found is kind]
    return [projections(block.output.weight.detach(), block.heads) for block in blocks]


def four_metrics(model: Transformer, kind: Kind, batches: Sequence[Batch]) -> Found:
    """The four on these batches, in evaluation mode. UserError where there is no batch."""
    if not batches:
        raise UserError("no text to measure diversity on: give at least one segment")
    heads = next(block.heads for found, _, block in model.attentions() if found is kind)
    queries, contexts = HeadGrams(kind, Point.QUERIES), HeadGrams(kind, Point.CONTEXT)
    slices = SliceCosine(kind, heads, replicates=0)
    outputs = PairCosine(kind, projections=head_outputs(model, kind), replicates=0)
    variance, dependence = MapVariance(kind, replicates=0), QueryDependence(kind, replicates=0)
    measures: list[Measure] = [queries, contexts, slices, outputs, variance, dependence]
    collect(model, batches, measures, progress=list)
    asked, given = queries.grams(), contexts.grams()
    return {
        (ORTHOGONALITY, RAW): asked.orthogonality(),
        (ORTHOGONALITY, FREE): asked.alignment(),
        (NON_ORTHOGONALITY, RAW): given.non_orthogonality(),
        (NON_ORTHOGONALITY, FREE): given.alignment(),
        (DISSIMILARITY, RAW): dissimilarity(slices.compute()),
        (DISSIMILARITY, FREE): dissimilarity(outputs.compute()),
        (ATTENTION, RAW): variance.compute(),
        (ATTENTION, FREE): dependence.compute(),
    }
