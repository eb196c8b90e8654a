"""Training a model by its name: recipe, subwords, updates, and a folder in the run store.

The folder holds subwords, `best.safetensors`, a snapshot at each power of √2, the learning curve
and the scores. A training that was killed goes on from its last checkpoint, and one that another
machine began from the weights that it published.
"""

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from headbook import recipes
from headbook.corpora.readers import ParallelCorpus
from headbook.models import checkpoint
from headbook.runs.canonical import plain
from headbook.runs.seeds import derived
from headbook.runs.store import RECORD, Ingredients, Stage, Store, checked
from headbook.text.subwords import Subwords
from headbook.training import processes
from headbook.training.loop import BEST, SNAPSHOTS, STATE, OutOfTimeError, Trainer
from headbook.training.models import TRAINING, Run, corpus_of, ingredients, initial, run
from headbook.types import UserError

CURVE = "curve.csv"
SUBWORDS = Stage("tokenised", version=1)


def train_missing(
    names: Iterable[str], store: Store, say: Callable[[str], None], deadline: float = math.inf
) -> bool:
    """Trains the models that the store lacks, one after the other, with a line for each.

    False where the deadline, of `time.monotonic()`, came before all were done. Translating the
    test sets at the end of a training is not cut.
    """
    processes.connect()
    said = say if processes.is_first() else str  # one process speaks for all
    done = all(_trained_in_time(name, store, said, deadline) for name in names)
    processes.part()
    return done


def _trained_in_time(name: str, store: Store, say: Callable[[str], None], deadline: float) -> bool:
    wanted = run(name)
    with processes.first_goes_first():  # a corpus is fetched once
        asked = ingredients(wanted)
    if processes.firsts(store.has(asked)):
        say(f"{name}: kept")
        return True
    if processes.firsts(time.monotonic() >= deadline):
        say(f"stopped before {name}; the same command continues")
        return False
    try:
        folder = trained(wanted, store, deadline)
    except OutOfTimeError as late:
        updates = wanted.training.updates
        say(f"{name} stopped at update {late.update} of {updates}; the same command continues")
        return False
    say(f"{name}: trained ({folder})")
    return True


def trained(wanted: Run, store: Store, deadline: float = math.inf) -> Path:
    """The folder of a training, from the store or trained now; OutOfTimeError at the deadline."""
    with processes.first_goes_first():
        asked = ingredients(wanted)
    folder = processes.together(partial(store.get, asked), partial(_train, wanted, store, deadline))
    if processes.is_first():
        # Only now: a kill before the folder had its final name would else train everything again.
        (folder / STATE).unlink(missing_ok=True)
    return folder


def folder_of(wanted: Run, store: Store) -> Path | None:
    """The folder of a finished training, without reading its corpus; None without one.

    The key holds the corpus' digest too: of several trainings, on other versions of the corpus or
    another device, the newest is taken.
    """
    asked = plain(wanted)
    made = store.finished(wanted.stage)
    return next((folder for folder, there in made if there["config"] == asked), None)


def snapshot(folder: Path, update: str) -> str:
    """The file name of the model that a training kept after so many updates; UserError for none."""
    names = sorted(path.name for path in folder.glob(SNAPSHOTS))
    kept = {str(int(re.sub(r"\D", "", name))): name for name in names}
    if update not in kept:
        raise UserError(f"no model was kept at update {update}; kept: {', '.join(kept)}")
    return kept[update]


def subwords(corpus: ParallelCorpus, vocabulary: int, store: Store) -> Path:
    """The folder with a corpus' subwords, source.json and target.json, learnt where it is not.

    All models with as large a vocabulary share them, and they can be carried to another machine.
    """

    def learn(folder: Path) -> None:
        for side in ("source", "target"):
            Subwords.train(getattr(corpus.train, side), vocabulary).save(folder / f"{side}.json")

    asked = Ingredients(SUBWORDS, {"vocabulary": vocabulary}, {"corpus": corpus.digest}, {})
    return store.get(asked, learn)


def _train(wanted: Run, store: Store, deadline: float, folder: Path) -> None:
    corpus = corpus_of(wanted.text.corpus, wanted.text.pairs)
    with processes.first_goes_first():
        learnt = subwords(corpus, wanted.text.vocabulary, store)
        if processes.is_first():
            for side in wanted.sides:
                shutil.copyfile(learnt / f"{side}.json", folder / f"{side}.json")
            if corpus.left_out:
                print(f"{corpus.name}: left out {corpus.left_out}")
    sides = [Subwords.load(folder / f"{side}.json") for side in wanted.sides]
    train = wanted.examples(corpus.train, sides, TRAINING)
    valid = wanted.examples(corpus.valid, sides, "validation")
    # the seed of its own that it draws batches and dropout with
    how = replace(wanted.training, seed=derived(wanted.training.seed, "training"))
    trainer = Trainer(initial(wanted, folder), how, train, valid, folder, deadline=deadline)
    if not (folder / STATE).exists() and (begun := _published(wanted, corpus.digest)):
        there, update = begun
        if processes.is_first():
            print(f"going on from {there} after update {update}, with Adam's moments anew")
        curve = pd.read_csv(there / CURVE) if (there / CURVE).is_file() else pd.DataFrame()
        trainer.go_on_from(checked(there, BEST), update, curve.to_dict("records"))
    progress = trainer.run()
    if processes.is_first():
        pd.DataFrame(progress.curve).to_csv(folder / CURVE, index=False)
        checkpoint.load_model(trainer.model, folder / BEST)
        wanted.score(trainer.model.eval(), corpus.tests, sides, folder)


def _published(wanted: Run, digest: str) -> tuple[Path, int] | None:
    """The latest weights of this training that data/models has on the way, and their update."""
    found = []
    for file in recipes.weights_folder("").glob(f"*/{RECORD}"):
        with suppress(ValueError, KeyError, TypeError):  # a damaged record is of no training
            made = json.loads(file.read_bytes())
            asked, updates = made["ingredients"], made["updates"]
            same = asked["config"] == plain(wanted) and asked["inputs"]["corpus"] == digest
            if same and updates < made["planned"]:
                found.append((updates, file.parent))
    return max(found)[::-1] if found else None
