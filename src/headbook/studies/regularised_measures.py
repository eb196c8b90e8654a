"""What notebook 36 measures of a model beside its quality, and whether the two go together."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.diversity_maps import MapOverlap
from headbook.heads.diversity_pairs import PairCosine, disagreement, mean_of_pairs
from headbook.heads.four_metrics import ARTICLE, FREE, four_metrics
from headbook.models.capture import Point, capture
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.statistics import REPLICATES, interval, within_layers
from headbook.studies.regularised_runs import NONE
from headbook.training.regularising import DiversityPenalty, Regulariser, Term, value
from headbook.types import Kind

SUBSPACES, POSITIONS, OUTPUTS = (
    "subspace disagreement", "position disagreement", "output disagreement",
)  # fmt: skip
METRICS = (*ARTICLE, SUBSPACES, POSITIONS, OUTPUTS)
INDEX = ["task", "variant", "seed"]
Grid = Float[np.ndarray, "variant seed"]


def diversity_rows(
    model: Transformer, kinds: Sequence[Kind], batches: Sequence[Batch]
) -> Iterator[dict[str, object]]:
    """One row a kind, layer and metric: the article's four, scale-free, and Li et al. 2018's D.

    The four are means over pairs of heads, or over heads; D counts a head with itself, as the work.
    """
    for kind in kinds:
        for metric, layers in (_article(model, kind, batches) | _li(model, kind, batches)).items():
            for layer, found in enumerate(layers.tolist(), start=1):
                yield {"kind": str(kind), "layer": layer, "metric": metric, "value": found}


def _article(
    model: Transformer, kind: Kind, batches: Sequence[Batch]
) -> dict[str, Float[torch.Tensor, " layer"]]:
    found = four_metrics(model, kind, batches)
    free = {metric: found[metric, FREE] for metric in ARTICLE}
    return {
        metric: mean_of_pairs(each) if each.ndim == 3 else each.mean(-1)
        for metric, each in free.items()
    }


def _li(
    model: Transformer, kind: Kind, batches: Sequence[Batch]
) -> dict[str, Float[torch.Tensor, " layer"]]:
    measures = {
        SUBSPACES: PairCosine(kind, Point.VALUES, replicates=0),
        POSITIONS: MapOverlap(kind, replicates=0),
        OUTPUTS: PairCosine(kind, Point.CONTEXT, replicates=0),
    }
    collect(model, batches, list(measures.values()), progress=list)
    return {name: disagreement(measure.compute()) for name, measure in measures.items()}


@torch.inference_mode()
def term_rows(
    model: Transformer, kinds: tuple[Kind, ...], batches: Sequence[Batch]
) -> Iterator[dict[str, object]]:
    """One row a term: what the penalty of it is on these batches, before λ; model in eval mode."""
    asked = {term: Regulariser(term, 0.0, kinds) for term in Term}
    points = frozenset().union(*(DiversityPenalty(each).points for each in asked.values()))
    found = dict.fromkeys(Term, 0.0)
    for batch in batches:
        with capture(model, points) as tape:
            model(batch)
        for term, regulariser in asked.items():
            found[term] += float(value(regulariser, batch, tape)) * len(batch)
    sentences = sum(map(len, batches))
    return ({"term": str(term), "value": total / sentences} for term, total in found.items())


def minus_base(values: pd.DataFrame) -> pd.DataFrame:
    """Indexed by INDEX: every model minus the base of its own task and seed."""
    base = values.xs(NONE, level="variant")
    others = values.drop(index=NONE, level="variant")
    return others - base.reindex(others.index.droplevel("variant")).to_numpy()


def explained(bought: Grid, gain: Grid) -> dict[str, float]:
    """Spearman's correlation of what is bought and what is gained, over the models of one seed.

    The mean over seeds: all models of a seed are compared with one base, whose own luck is no part
    of their order. `low` and `high` by drawing variants again, each with all of its seeds;
    `null_low` and `null_high` hold 95 % of what comes of giving one variant's gains to another.
    """
    noise = np.random.default_rng(derived(0, "variants drawn again"))
    own = np.arange(len(gain))
    drawn = np.vstack([own, noise.choice(own, size=(REPLICATES, len(own)))])
    mixed = np.vstack([own, noise.permuted(np.tile(own, (REPLICATES, 1)), axis=1)])
    found, low, high = interval(_over_seeds(bought[drawn], gain[drawn]))
    every = np.broadcast_to(bought, (len(mixed), *bought.shape))
    _, null_low, null_high = interval(_over_seeds(every, gain[mixed]))
    return {"correlation": found, "low": low, "high": high, "null_low": null_low,
            "null_high": null_high}  # fmt: skip


def _over_seeds(
    bought: Float[np.ndarray, "replicate variant seed"],
    gain: Float[np.ndarray, "replicate variant seed"],
) -> Float[np.ndarray, " replicate"]:
    """Without a seed in which all were drawn alike."""
    found = within_layers(np.swapaxes(bought, -1, -2), np.swapaxes(gain, -1, -2))
    return torch.as_tensor(found).nanmean(-1).numpy()
