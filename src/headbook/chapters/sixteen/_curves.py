"""BLEU of a model at one update of its training (pages 26 and 27)."""

from headbook.artefacts.masked import Masked, MaskedRun, masked
from headbook.artefacts.model import TrainedModel, primary
from headbook.runs.store import Store


def score(trained: TrainedModel, sentences: int, store: Store, update: int | None = None) -> Masked:
    """The full model, once: on the primary test set, greedily."""
    return masked(trained, MaskedRun(primary(trained), sentences, ((),), update=update), store)
