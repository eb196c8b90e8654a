"""Heads removed before fine-tuning, beside the same removed after it: one stored run per training.

Budhraja et al. (2020) prune heads of a pretrained encoder and fine-tune what is left.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from headbook.chapters.your_own_model._tuned import (
    Sentences,
    encoder_heads,
    scored,
    thirds,
    tuned,
)
from headbook.looking.load import load
from headbook.models.gates import closed
from headbook.models.loaded import Loaded, digest
from headbook.runs.store import Ingredients, Stage, Store
from headbook.types import HeadId

RETRAINED = Stage("retrained", version=1)
NONE, DRAWN = "none", "as many at random"
SETS = ("early", "middle", "late", DRAWN)
AFTER, BEFORE = "after fine-tuning", "before fine-tuning"


@dataclass(frozen=True)
class Retraining:
    """One fine-tuning of an encoder without a set of its heads; NONE is the whole encoder."""

    model: str
    corpus: str
    train: int
    epochs: int
    tested: int
    seed: int
    without: str = NONE


def sets(model: Loaded, seed: int) -> dict[str, list[HeadId]]:
    """The heads of the lower, middle and upper third of the layers, and as many at random."""
    parts = thirds(model)
    drawn = random.Random(seed).sample(encoder_heads(model), len(parts["early"]))
    return {NONE: [], **parts, DRAWN: drawn}


def retrained(run: Retraining, train: Sentences, test: Sentences, store: Store) -> pd.DataFrame:
    """Accuracy and cross-entropy in nats on the test sentences, from the store or trained now.

    Without a set: that set is removed before training and stays away. With the whole encoder: each
    set in turn is removed afterwards. The sentences are those that the run names.
    """
    model = load(run.model)
    asked = Ingredients(RETRAINED, run, {"model": digest(model.network)}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, model, train, test, aside))
    return pd.DataFrame(json.loads((folder / "rows.json").read_text()))


def _write(run: Retraining, model: Loaded, train: Sentences, test: Sentences, folder: Path) -> None:
    heads = sets(model, run.seed)
    with closed(model.network, heads[run.without]):
        found = tuned(model, train, run.seed, run.epochs)
    removed = heads if run.without == NONE else {run.without: heads[run.without]}
    rows = []
    for name, each in removed.items():
        accuracy, nats = scored(found, test, each)
        rows.append({"removed": name, "accuracy": accuracy, "nats": nats})
    (folder / "rows.json").write_text(json.dumps(rows))
