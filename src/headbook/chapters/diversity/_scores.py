"""Every measure of diversity of one model's heads on one text, as a tidy table."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.diversity_grams import HeadGrams, SentenceSpread
from headbook.heads.diversity_maps import (
    MapDistance,
    MapEntropy,
    MapOverlap,
    MapVariance,
    QueryDependence,
)
from headbook.heads.diversity_pairs import (
    PairCosine,
    SentenceCosine,
    SliceCosine,
    disagreement,
    dissimilarity,
    mean_of_pairs,
)
from headbook.heads.four_metrics import (
    ATTENTION,
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    ORTHOGONALITY,
    RAW,
    head_outputs,
)
from headbook.heads.measure import HeadMeasure, percentiles
from headbook.models.capture import Point
from headbook.models.transformer import Transformer
from headbook.types import Kind

DISTANCE = "Jensen-Shannon distance"
CKA = "linear CKA of contexts"

Replicates = Float[Tensor, "replicate layer"]
"""A number per layer, and after it its bootstrap over sentences where there is one."""


@dataclass(frozen=True)
class Layered:
    """One measure of one kind of attention, summed up by layer."""

    metric: str
    form: str
    replicates: Replicates

    def rows(self) -> Iterator[dict[str, object]]:
        values = self.replicates[0]
        low = high = torch.full_like(values, torch.nan)
        if len(self.replicates) > 1:
            low, high = percentiles(self.replicates[1:])
        numbers = zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
        for layer, (value, below, above) in enumerate(numbers, start=1):
            yield {"layer": layer, "metric": self.metric, "form": self.form,
                   "value": value, "low": below, "high": above}  # fmt: skip


def diversity_rows(model: Transformer, kind: Kind, batches: Sequence[Batch]) -> pd.DataFrame:
    """One row per layer and measure: the mean over pairs of heads, or over heads.

    Intervals are over sentences; products of vectors over a whole text have none.
    """
    grams, ratios, spread = _grams(kind), _ratios(model, kind), SentenceSpread(kind)
    collect(model, batches, [*grams, *ratios.values(), spread])
    found = {name: measure.sums().replicates() for name, measure in ratios.items()}
    within = Layered("Lee: within a head", FREE, spread.compute().mean(-1)[None])
    return _table([*_of_grams(*grams), *_of_ratios(found), within], kind)


def _grams(kind: Kind) -> tuple[HeadGrams, HeadGrams]:
    return HeadGrams(kind, Point.QUERIES), HeadGrams(kind, Point.CONTEXT)


def _ratios(model: Transformer, kind: Kind) -> dict[str, HeadMeasure]:
    blocks = [block for found, _, block in model.attentions() if found is kind]
    return {
        "slices": SliceCosine(kind, blocks[0].heads),
        "outputs": PairCosine(kind, projections=head_outputs(model, kind)),
        "subspaces": PairCosine(kind, Point.VALUES),
        "contexts": PairCosine(kind),
        "overlap": MapOverlap(kind),
        "distance": MapDistance(kind),
        "entropy": MapEntropy(kind),
        "variance": MapVariance(kind),
        "dependence": QueryDependence(kind),
        "sentences": SentenceCosine(kind),
    }


def _of_grams(queries: HeadGrams, contexts: HeadGrams) -> Iterator[Layered]:
    asked, given = queries.grams(), contexts.grams()
    for metric, form, pairs in (
        (ORTHOGONALITY, RAW, asked.orthogonality()),
        (ORTHOGONALITY, FREE, asked.alignment()),
        (NON_ORTHOGONALITY, RAW, given.non_orthogonality()),
        (NON_ORTHOGONALITY, FREE, given.alignment()),
        (CKA, FREE, given.cka()),
    ):
        yield Layered(metric, form, mean_of_pairs(pairs)[None])


def _of_ratios(found: dict[str, Tensor]) -> Iterator[Layered]:
    yield Layered(DISSIMILARITY, RAW, mean_of_pairs(dissimilarity(found["slices"])))
    yield Layered(DISSIMILARITY, FREE, mean_of_pairs(dissimilarity(found["outputs"])))
    yield Layered(ATTENTION, RAW, found["variance"].mean(-1))
    yield Layered(ATTENTION, FREE, found["dependence"].mean(-1))
    yield Layered("Li: subspaces disagree", FREE, disagreement(found["subspaces"]))
    yield Layered("Li: positions disagree", FREE, disagreement(found["overlap"]))
    yield Layered("Li: outputs disagree", FREE, disagreement(found["contexts"]))
    yield Layered("Lee: between heads", FREE, mean_of_pairs(found["sentences"]))
    yield Layered(DISTANCE, FREE, mean_of_pairs(found["distance"]))
    yield Layered("entropy, nats", RAW, found["entropy"].mean(-1))


def _table(found: Iterable[Layered], kind: Kind) -> pd.DataFrame:
    return pd.DataFrame([row for each in found for row in each.rows()]).assign(kind=str(kind))
