"""Training a model by its name: recipe, subwords, updates, and a folder in the run store.

The folder holds subwords, `best.safetensors`, a snapshot at each power of √2, the learning curve
and the scores. A training that was killed goes on from its last checkpoint.
"""

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from headbook import paths
from headbook.corpora.readers import ParallelCorpus
from headbook.models import checkpoint
from headbook.runs.canonical import plain
from headbook.runs.seeds import derived
from headbook.runs.store import ELSEWHERE, RECORD, Ingredients, Stage, Store
from headbook.text.subwords import Subwords
from headbook.training import processes
from headbook.training.loop import BEST, SNAPSHOTS, STATE, OutOfTimeError, Start, Trainer
from headbook.training.models import (
    TRAINING,
    Run,
    corpus_of,
    ingredients,
    initial,
    run,
)
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
    """The folder of a training, from the store or trained now; OutOfTimeError at the deadline.

    Under torchrun all processes train it.
    """
    processes.connect()
    with processes.first_goes_first():
        asked = ingredients(wanted)
    work = partial(_train, wanted, asked, store, deadline)
    folder = processes.together(partial(store.get, asked), work)
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


def _train(wanted: Run, asked: Ingredients, store: Store, deadline: float, folder: Path) -> None:
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
    trainer = Trainer(initial(wanted, folder), how, train, valid, folder,
                      start=published_start(asked, folder), deadline=deadline)  # fmt: skip
    progress = trainer.run()
    if processes.is_first():
        pd.DataFrame(progress.curve).to_csv(folder / CURVE, index=False)
        checkpoint.load_model(trainer.model, folder / BEST)
        wanted.score(trainer.model.eval(), corpus.tests, sides, folder)


def published_start(asked: Ingredients, folder: Path) -> Start | None:
    """Where a training begins that has no checkpoint in `folder` and whose weights data/models has,
    on the way or of the end, with a line that says so. None for any other training.

    Of the end, the record will be that of the machine that trained it.
    """
    if (folder / STATE).exists():
        return None
    files = (paths.DATA / "models").glob(f"*/{RECORD}")
    known = [(json.loads(file.read_text()), file.parent) for file in sorted(files)]
    same = [each for each in known if _anywhere(each[0]["ingredients"]) == _anywhere(plain(asked))]
    if not same:
        return None
    made, there = max(same, key=lambda each: each[0]["updates"])
    curve = pd.read_csv(there / CURVE) if (there / CURVE).is_file() else pd.DataFrame()
    if processes.is_first():
        done = made["updates"] >= made["planned"]
        how = "taking the trained model of" if done else "going on from"
        anew = "" if done else f" after update {made['updates']}, with Adam's moments anew"
        print(f"{how} {there}{anew}; without that folder training starts from the beginning")
        if done:
            told = {"commit": made["commit"], "hardware": made["hardware"], "started": made["date"],
                    "seconds": _seconds(curve)}  # fmt: skip
            (folder / ELSEWHERE).write_text(json.dumps(told))
    return Start(there / BEST, made["updates"], curve.to_dict("records"))


def _anywhere(asked: dict[str, Any]) -> dict[str, Any]:
    """The key material without the class of device: published weights stand for it on any."""
    policy = {name: value for name, value in asked["policy"].items() if name != "device"}
    return asked | {"policy": policy}


def _seconds(curve: pd.DataFrame) -> float | None:
    """Of a training; one that went on from published weights counts from there."""
    if curve.empty:
        return None
    restarts = curve["restarted"].fillna(0) if "restarted" in curve else 0 * curve["update"]
    return round(float(curve.groupby(restarts)["seconds"].max().sum()), 1)
