"""Page 36, measurements of one model: losses, diversity, the terms, the loss without heads."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file

from headbook.artefacts.regularising import Made, Task
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._removed_heads import without_heads
from headbook.corpora.batches import Batch, in_order
from headbook.heads.collect import collect
from headbook.heads.diversity_maps import MapOverlap
from headbook.heads.diversity_pairs import PairCosine, disagreement, mean_of_pairs
from headbook.heads.four_metrics import ARTICLE, FREE, four_metrics
from headbook.models.capture import Point, capture
from headbook.models.transformer import Transformer
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training.regularising import DiversityPenalty, Regulariser, Term, value
from headbook.training.scoring import Losses
from headbook.types import Kind

SUBSPACES, POSITIONS, OUTPUTS = (
    "subspace disagreement", "position disagreement", "output disagreement",
)  # fmt: skip
METRICS = (*ARTICLE, SUBSPACES, POSITIONS, OUTPUTS)
READING = Stage("reading", version=1)
PROBE = {Task.TRANSLATION: 100, Task.LANGUAGE: 8}
"""Of validation text, on which diversity is measured: pairs, or segments."""
LOST = {Task.TRANSLATION: 300, Task.LANGUAGE: 32}
"""Of validation text, on which models lose their heads."""
LEVELS = (0.0, 0.25, 0.5, 0.75)
TABLES = ("diversity", "terms", "removed")


@dataclass(frozen=True)
class ReadingRun:
    """Amount of validation text, in pairs or segments, and shares of heads to close."""

    probe: int
    lost: int
    orders: int
    levels: tuple[float, ...] = LEVELS


@dataclass(frozen=True, eq=False)
class Reading:
    """One model: its losses on test text, and TABLES with the columns that tell models apart."""

    made: Made
    losses: Losses
    tables: Tables

    @property
    def test_nats(self) -> float:
        """Cross-entropy a token on the first test set, or on the test text."""
        return self.losses.mean

    @property
    def perplexity(self) -> float:
        """A piece, on the test text; NaN of a translation model."""
        return (
            float("nan") if self.made.asked.task is Task.TRANSLATION else math.exp(self.test_nats)
        )


def asked_of(each: Made, config: Config) -> ReadingRun:
    """Measurements of a model under a config; fewer sentences where the user asks for so many."""
    task, few = each.asked.task, None
    if task is Task.TRANSLATION:
        few = config.sentence_count
    return ReadingRun(few or PROBE[task], few or LOST[task], config.preset.pruning.orders)


def reading(each: Made, run: ReadingRun, store: Store) -> Reading:
    """From the store, or read now."""
    made_by = each.model.asked
    asked = Ingredients(READING, run, {"model": made_by.key}, made_by.policy)
    folder = store.get(asked, lambda aside: _read(each, run, aside))
    kept = load_file(folder / "losses.safetensors")
    tables = {
        name: pd.read_csv(folder / f"{name}.csv").assign(**each.asked.labels) for name in TABLES
    }
    return Reading(each, Losses(kept["nats"], kept["tokens"]), tables)


def _read(each: Made, run: ReadingRun, folder: Path) -> None:
    model, losses = each.model.model(), each.test_losses()
    pairs = each.valid_sample(run.lost)
    rows = {
        "diversity": diversity_rows(model, each.kinds, probe(each, run)),
        "terms": term_rows(model, each.kinds, probe(each, run)),
        "removed": without_heads(model, lambda: each.nats(model, pairs), run.levels, run.orders,
                                 each.asked.variant),
    }  # fmt: skip
    for name, found in rows.items():
        pd.DataFrame(found).to_csv(folder / f"{name}.csv", index=False)
    save_file({"nats": losses.nats, "tokens": losses.tokens}, folder / "losses.safetensors")


def probe(each: Made, run: ReadingRun) -> list[Batch]:
    """The validation text on which diversity is measured."""
    return list(in_order(each.valid_sample(run.probe), each.asked.run.training.tokens))


def diversity_untrained(each: Made, run: ReadingRun) -> pd.DataFrame:
    """As in a reading, of the model before its first update."""
    rows = diversity_rows(each.model.untrained(), each.kinds, probe(each, run))
    return pd.DataFrame(rows).assign(**each.asked.labels)


def diversity_rows(
    model: Transformer, kinds: Sequence[Kind], batches: Sequence[Batch]
) -> Iterator[dict[str, object]]:
    """One row per kind, layer and metric: the article's four, scale-free, and Li et al. 2018's D.

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
    """One row per term: its penalty on these batches, before λ; model in eval mode."""
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
