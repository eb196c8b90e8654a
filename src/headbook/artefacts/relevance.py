"""The stage `relevance`: the relevance of every head of one model on validation sentences."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headbook.artefacts.heads import bar, read_sums, write_sums
from headbook.artefacts.model import TrainedModel
from headbook.corpora.batches import in_order
from headbook.heads.measure import RatioSums
from headbook.heads.relevance_rules import Variant, rules_of
from headbook.heads.relevance_sums import RelevanceSums, collect_relevance
from headbook.runs.store import Ingredients, Stage, Store
from headbook.types import UserError

RELEVANCE = Stage("relevance", version=1)
BATCH_TOKENS = 256
"""Padded tokens a side at most; larger batches do not fit into a processor's cache."""


@dataclass(frozen=True)
class RelevanceRun:
    """Pairs for propagation: the first so many of the validation set, as in the paper.

    At `update` 0 the model before training, at None the best model.
    """

    variant: Variant
    sentences: int
    update: int | None = None


def relevance(trained: TrainedModel, run: RelevanceRun, store: Store) -> Mapping[str, RatioSums]:
    """The model's relevance by the names of `RelevanceSums`, from the store or propagated now.

    UserError for less than one sentence; a validation set that has fewer is taken whole.
    """
    if run.sentences < 1:
        raise UserError(f"sentences is {run.sentences}; relevance needs at least 1")
    made_by = trained.asked
    asked = Ingredients(RELEVANCE, run, {"model": made_by.key}, made_by.policy)
    folder = store.get(asked, lambda aside: _propagate(trained, run, aside))
    return read_sums(folder / "sums.safetensors")


def _propagate(trained: TrainedModel, run: RelevanceRun, folder: Path) -> None:
    pairs = trained.encode(trained.corpus.valid.first(run.sentences))
    model = trained.model(run.update)
    sums = RelevanceSums()
    batches = list(in_order(pairs, BATCH_TOKENS))
    told = partial(bar, what="relevance")
    collect_relevance(model, batches, rules_of(run.variant), sums, told)
    write_sums(folder / "sums.safetensors", sums.sums())
