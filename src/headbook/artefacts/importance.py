"""The stage `importance`: Michel et al.'s gradient score of every head of one model, as sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headbook.artefacts.heads import bar, read_sums, write_sums
from headbook.artefacts.masked import pairs_of
from headbook.artefacts.model import TrainedModel
from headbook.corpora.batches import in_order
from headbook.heads.importance import importance as measured
from headbook.heads.measure import RatioSums
from headbook.models.gates import closed
from headbook.runs.store import Ingredients, Stage, Store
from headbook.types import HeadId

IMPORTANCE = Stage("importance", version=1)
BATCH_TOKENS = 2048


@dataclass(frozen=True)
class ImportanceRun:
    """On which pairs ("train", "valid" or a test set) which model is measured.

    `update` is None for the best model, 0 for the untrained one. `closed` are heads already taken
    away, for scores that are estimated anew while heads are pruned; they themselves score 0.
    """

    sentences: int  # the first so many pairs
    update: int | None = None
    pairs: str = "train"
    closed: tuple[HeadId, ...] = ()


def importance(trained: TrainedModel, run: ImportanceRun, store: Store) -> Mapping[str, RatioSums]:
    """Every head's score in both forms, from the store or measured now.

    The names are `position/encoder`, `sentence/encoder` and so on; see heads/importance.py. Scores
    are raw: layers are not normalised.
    """
    made_by = trained.asked
    asked = Ingredients(IMPORTANCE, run, {"model": made_by.key}, made_by.policy)
    folder = store.get(asked, lambda aside: _measure(trained, run, aside))
    return read_sums(folder / "sums.safetensors")


def _measure(trained: TrainedModel, run: ImportanceRun, folder: Path) -> None:
    model = trained.model(run.update)
    pairs = trained.encode(pairs_of(trained.corpus, run.pairs, run.sentences))
    batches = list(in_order(pairs, BATCH_TOKENS))
    with closed(model, run.closed):
        sums = measured(model, bar(batches, "importance"))
    write_sums(folder / "sums.safetensors", sums)
