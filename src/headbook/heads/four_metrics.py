"""The X-raying article's four metrics together, each raw and scale-free, for one kind of attention.

They are defined in diversity_grams.py, diversity_pairs.py and diversity_maps.py.
"""

from collections.abc import Mapping, Sequence, Set

from jaxtyping import Float
from torch import Tensor

from headbook.heads.collect import Measure, collect
from headbook.heads.diversity_grams import HeadGrams
from headbook.heads.diversity_maps import MapVariance, QueryDependence
from headbook.heads.diversity_pairs import PairCosine, SliceCosine, dissimilarity
from headbook.heads.outputs import output_parts
from headbook.models.capture import Capturable, Point
from headbook.text.batches import Batch
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


def head_outputs(model: Capturable, kind: Kind) -> list[Float[Tensor, "head dim model"]] | None:
    """W_O of every layer, split by head; it maps a head's context to its true output.

    None where the output projection of a block is out of reach.
    """
    try:
        return output_parts(model, kind)
    except UserError:
        return None


def four_metrics(
    model: Capturable,
    kind: Kind,
    batches: Sequence[Batch],
    points: Set[Point] = frozenset(Point),
    forms: Set[str] = frozenset({RAW, FREE}),
    training: bool = False,
) -> Found:
    """The four on these batches, in evaluation mode or in that of `training`.

    UserError where there is no batch.

    `points` are those that the model records; metrics that need another are left out, as are true
    outputs where there is no output projection to compute them with.
    """
    if not batches:
        raise UserError("no text to measure diversity on: give at least one segment")
    heads = next(block.heads for found, _, block in model.attentions() if found is kind)
    outputs = head_outputs(model, kind)
    queries, contexts = HeadGrams(kind, Point.QUERIES), HeadGrams(kind, Point.CONTEXT)
    slices = SliceCosine(kind, heads, replicates=0)
    true_outputs = PairCosine(kind, projections=outputs, replicates=0)
    variance, dependence = MapVariance(kind, replicates=0), QueryDependence(kind, replicates=0)
    read = {
        (ORTHOGONALITY, RAW): (queries, lambda: queries.grams().orthogonality()),
        (ORTHOGONALITY, FREE): (queries, lambda: queries.grams().alignment()),
        (NON_ORTHOGONALITY, RAW): (contexts, lambda: contexts.grams().non_orthogonality()),
        (NON_ORTHOGONALITY, FREE): (contexts, lambda: contexts.grams().alignment()),
        (DISSIMILARITY, RAW): (slices, lambda: dissimilarity(slices.compute())),
        (DISSIMILARITY, FREE): (true_outputs, lambda: dissimilarity(true_outputs.compute())),
        (ATTENTION, RAW): (variance, variance.compute),
        (ATTENTION, FREE): (dependence, dependence.compute),
    }
    absent = {true_outputs} if outputs is None else set()
    read = {name: each for name, each in read.items()
            if each[0].point in points and each[0] not in absent and name[1] in forms}  # fmt: skip
    measures: list[Measure] = list(dict.fromkeys(measure for measure, _ in read.values()))
    collect(model, batches, measures, progress=list, training=training)
    return {name: result() for name, (_, result) in read.items()}
