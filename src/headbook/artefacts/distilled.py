"""The stage `distilled`: a released model's own translations, for training it without its corpus.

Sequence-level distillation (Kim and Rush 2016) of a model into itself: its targets are its own
translations from before heads were closed, so no parallel text is needed.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from tqdm import tqdm

from headbook.corpora import download
from headbook.corpora.batches import EncodedPair
from headbook.corpora.readers import load
from headbook.corpora.registry import CorpusKind, corpus
from headbook.models.loaded import digest
from headbook.released.firefox import EOS, FirefoxModel
from headbook.runs.store import Ingredients, Stage, Store
from headbook.syntax.treebank import read_conllu
from headbook.types import UserError

DISTILLED = Stage("distilled", version=1)
LONGEST = 60
"""Sentences of more pieces are left out, and so are translations that ran on to more."""
CHUNK = 2000
"""Sentences between two writes: an interruption loses no more."""


@dataclass(frozen=True)
class DistilledRun:
    """The first so many usable sentences of each text, in this order.

    A text is a treebank's part ("ud-ewt/train"), or one side of a parallel corpus' part
    ("msdocs-fr/train.en").
    """

    texts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Distilled:
    """Source ids of the sentences, with the ids of the model's greedy translations."""

    asked: Ingredients
    folder: Path

    @cached_property
    def pairs(self) -> list[EncodedPair]:
        rows = map(json.loads, (self.folder / "pairs.jsonl").read_text().splitlines())
        return [(row["source"], row["target"]) for row in rows]


Reader = Callable[[str], Sequence[str]]
"""From the name of a text to its sentences."""


def distilled(
    model: FirefoxModel,
    run: DistilledRun,
    store: Store,
    read: Reader | None = None,
    *,
    stored: bool = False,
) -> Distilled | None:
    """From the store, or translated now; goes on where an interruption left it.

    `read` gives the sentences of texts that are neither treebanks nor parallel corpora. With
    `stored` nothing is translated: None where the store lacks it.
    """
    sentences = [line for name, count in run.texts for line in (read or _sentences)(name)[:count]]
    text = sha256("\n".join(sentences).encode()).hexdigest()
    asked = Ingredients(DISTILLED, run, {"model": digest(model.network), "sentences": text}, {})
    if stored and not store.has(asked):
        return None
    return Distilled(asked, store.get(asked, lambda aside: _translate(model, sentences, aside)))


def _sentences(name: str) -> list[str]:
    """The different sentences of a part of a treebank or of one side of a parallel corpus."""
    text, _, part = name.partition("/")
    entry = corpus(text)
    if entry.kind is CorpusKind.TREEBANK:
        files = download.locate(text).files
        if f"{part}.conllu" not in files:
            raise UserError(f"{text} has no part {part!r}; it has {', '.join(files)}")
        found = [tree.text for tree in read_conllu(files[f"{part}.conllu"])]
    else:
        split, _, side = part.partition(".")
        pairs = getattr(load(text), split)
        found = pairs.source if side == "en" else pairs.target
    return list(dict.fromkeys(found))


def _translate(model: FirefoxModel, sentences: Sequence[str], folder: Path) -> None:
    usable = [line for line in sentences if 2 < len(model.spans(line)) <= LONGEST]
    file = folder / "pairs.jsonl"
    done = _whole_lines(file)
    with file.open("a") as rows, tqdm(total=len(usable), initial=done, desc="translating",
                                      unit="sentence", mininterval=2) as bar:  # fmt: skip
        for start in range(done, len(usable), CHUNK):
            chunk = usable[start : start + CHUNK]
            found = _pairs(model, chunk)
            rows.writelines(json.dumps({"source": one, "target": two}) + "\n" for one, two in found)
            rows.flush()
            bar.update(len(chunk))


def _pairs(model: FirefoxModel, sentences: Sequence[str]) -> list[EncodedPair]:
    """The sentences' ids and those of their translations, in order; all end in EOS."""
    found: dict[int, EncodedPair] = {}
    for batch in model.batches(sentences):
        targets = model.translate_batch(batch, shortlist=True)
        rows = zip(batch.sentences.tolist(), batch.source, batch.source_mask, targets, strict=True)
        for index, source, real, target in rows:
            found[index] = source[real].tolist(), [*target, EOS]
    return [found[index] for index in range(len(sentences))]


def _whole_lines(file: Path) -> int:
    """Number of whole lines; remains of an interrupted write after the last chunk are cut off."""
    if not file.exists():
        return 0
    lines = file.read_text().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    kept = whole[: len(whole) // CHUNK * CHUNK]
    file.write_text("".join(kept))
    return len(kept)
