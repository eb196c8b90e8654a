"""The stage `tokenised`: subwords of both sides of a corpus, and its training pairs as ids.

Every model of the corpus with as large a vocabulary starts from them, and they can be carried to a
machine on which learning subwords would cost time of its accelerator.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headbook.corpora.batches import EncodedPair
from headbook.corpora.readers import ParallelCorpus
from headbook.corpora.subwords import Subwords
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import processes

TOKENISED = Stage("tokenised", version=1)
SIDES = ("source", "target")
IDS = "training.safetensors"


@dataclass(frozen=True)
class TokenisedRun:
    """Largest vocabulary of each side."""

    vocabulary: int


@dataclass(frozen=True)
class Tokenised:
    """A finished run of the stage and what can be read from it."""

    folder: Path

    @cached_property
    def training_pairs(self) -> list[EncodedPair]:
        """All of them, in the order of the corpus; ids end in EOS."""
        tensors = load_file(self.folder / IDS)
        sides = (_rows(tensors[f"{side} ids"], tensors[f"{side} lengths"]) for side in SIDES)
        return list(zip(*sides, strict=True))

    def copy_subwords(self, folder: Path, sides: Sequence[str] = SIDES) -> None:
        """So that a model can be read without the corpus it came from."""
        for side in sides:
            shutil.copyfile(self.folder / f"{side}.json", folder / f"{side}.json")


def asked_tokenised(corpus: ParallelCorpus, vocabulary: int) -> Ingredients:
    """The key material: nothing of it is arithmetic of a device."""
    return Ingredients(TOKENISED, TokenisedRun(vocabulary), {"corpus": corpus.digest}, {})


def tokenised(corpus: ParallelCorpus, vocabulary: int, store: Store) -> Tokenised:
    """From the store or learnt now; under torchrun the first process learns them for all."""
    asked = asked_tokenised(corpus, vocabulary)
    with processes.first_goes_first():
        return Tokenised(store.get(asked, lambda aside: _learn(corpus, vocabulary, aside)))


def _learn(corpus: ParallelCorpus, vocabulary: int, folder: Path) -> None:
    tensors = {}
    for side in SIDES:
        sentences = getattr(corpus.train, side)
        subwords = Subwords.train(sentences, vocabulary)
        subwords.save(folder / f"{side}.json")
        rows = subwords.encode(sentences)
        tensors[f"{side} ids"] = _narrow([each for row in rows for each in row])
        tensors[f"{side} lengths"] = _narrow([len(row) for row in rows])
    save_file(tensors, folder / IDS)


def _narrow(values: list[int]) -> Tensor:
    """In 16 bits where they fit: vocabularies are rarely larger."""
    whole = torch.tensor(values, dtype=torch.int32)
    fits = not values or max(values) <= torch.iinfo(torch.int16).max
    return whole.to(torch.int16) if fits else whole


def _rows(ids: Tensor, lengths: Tensor) -> list[list[int]]:
    return [row.tolist() for row in ids.split(lengths.tolist())]
