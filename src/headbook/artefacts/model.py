"""The stage `model`: a corpus becomes subwords, a trained transformer and its BLEU."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from headbook.artefacts.tokenised import tokenised
from headbook.artefacts.trained import (
    Trained,
    as_drawn,
    numeric_policy,
    published_start,
    trained_folder,
)
from headbook.corpora.batches import EOS, EncodedPair
from headbook.corpora.readers import Pairs, ParallelCorpus, load
from headbook.corpora.subwords import Subwords
from headbook.models.decoding import Search
from headbook.models.gates import all_heads
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import processes
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.scoring import Casing, bleu, chrf, translate_corpus
from headbook.types import HeadId

Heads = tuple[HeadId, ...]

TRAINED = Stage("model", version=1)
LONGEST = 200
"""Pairs with more subwords on a side are left out of training, as in the paper's code."""
LONGEST_EVALUATED = 512
"""Lines with more subwords are cut where a model is evaluated: 200 words have fewer, but a line
without spaces may have 20,000, and attention takes their square."""


BEAM = Search()


@dataclass(frozen=True)
class Size:
    """The shape of a model apart from its vocabularies."""

    layers: int = 6
    width: int = 128
    feed_forward: int = 512
    heads: int = 8


@dataclass(frozen=True)
class ModelRun:
    """Everything that decides a trained model."""

    stage: ClassVar[Stage] = TRAINED

    corpus: str
    size: Size
    vocabulary: int
    dropout: float
    training: TrainingConfig
    pairs: int | None = None  # the first so many training pairs; all where None
    search: Search = BEAM

    def with_seed(self, seed: int) -> "ModelRun":
        return replace(self, training=replace(self.training, seed=seed))

    def config(self, source: Subwords, target: Subwords) -> TransformerConfig:
        return TransformerConfig(
            source_vocabulary=len(source),
            target_vocabulary=len(target),
            encoder_layers=self.size.layers,
            decoder_layers=self.size.layers,
            width=self.size.width,
            feed_forward=self.size.feed_forward,
            heads=self.size.heads,
            dropout=self.dropout,
        )

    def equip(self, trainer: Trainer) -> None:
        """Additions of a kind of run to its training; none here."""

    @property
    def label(self) -> str:
        return f"{self.corpus} seed {self.training.seed}"

    def ingredients(self) -> Ingredients:
        """The key material of a model that may not be trained yet."""
        with processes.first_goes_first():  # a corpus is fetched once
            return ingredients(self, corpus_of(self.corpus, self.pairs))

    def trained(self, store: Store, deadline: float = math.inf) -> "TrainedModel":
        """From the store or trained now; OutOfTimeError at the deadline.

        Translating the test sets at the end is not cut.
        """
        asked, corpus = self.ingredients(), corpus_of(self.corpus, self.pairs)
        folder = trained_folder(
            store, asked, lambda aside: _train(self, corpus, store, aside, deadline)
        )
        return TrainedModel(self, folder, corpus)


def ingredients(run: ModelRun, corpus: ParallelCorpus) -> Ingredients:
    """The run's key material."""
    return Ingredients(TRAINED, run, {"corpus": corpus.digest}, numeric_policy(run.training))


@dataclass(frozen=True)
class TrainedModel(Trained):
    """A finished run of the stage and what can be read from it."""

    run: ModelRun
    folder: Path
    corpus: ParallelCorpus

    @property
    def asked(self) -> Ingredients:
        """Key material of this model, for the keys of results computed from it."""
        return ingredients(self.run, self.corpus)

    @cached_property
    def source(self) -> Subwords:
        return Subwords.load(self.folder / "source.json")

    @cached_property
    def target(self) -> Subwords:
        return Subwords.load(self.folder / "target.json")

    @cached_property
    def bleu(self) -> pd.DataFrame:
        """One row per test set and casing, with sacrebleu's signatures."""
        return pd.read_csv(self.folder / "bleu.csv")

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode."""
        return initial_model(self.run, self.source, self.target).eval()

    def encode(self, pairs: Pairs) -> list[EncodedPair]:
        return encode(self.source, self.target, pairs)

    @cached_property
    def training_pairs(self) -> list[EncodedPair]:
        """Training pairs: those with at most LONGEST subwords on either side."""
        return short(self.encode(self.corpus.train))


def initial_model(run: ModelRun, source: Subwords, target: Subwords) -> Transformer:
    """The run's model before its first update: the same for the same seed."""
    torch.manual_seed(derived(run.training.seed, "initial weights"))
    return Transformer(run.config(source, target))


def encode(source: Subwords, target: Subwords, pairs: Pairs) -> list[EncodedPair]:
    """Both sides as ids ending in EOS, cut to LONGEST_EVALUATED subwords."""
    sides = (source.encode(pairs.source), target.encode(pairs.target))
    return list(zip(*map(cut, sides), strict=True))


def cut(rows: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The first LONGEST_EVALUATED subwords of each line, EOS the last of them."""
    last = LONGEST_EVALUATED - 1
    return [row if len(row) <= last + 1 else [*row[:last], EOS] for row in rows]


def short(pairs: Sequence[EncodedPair], longest: int = LONGEST) -> list[EncodedPair]:
    """The pairs with at most `longest` subwords on either side."""
    return [pair for pair in pairs if max(map(len, pair)) <= longest]


@lru_cache(maxsize=4)
def corpus_of(corpus: str, pairs: int | None) -> ParallelCorpus:
    """The corpus, read once per process: a page asks for it many times over."""
    return load(corpus, pairs)


def trained(run: ModelRun, store: Store, deadline: float = math.inf) -> TrainedModel:
    """The run's model, see `ModelRun.trained`."""
    return run.trained(store, deadline)


def _train(
    run: ModelRun, corpus: ParallelCorpus, store: Store, folder: Path, deadline: float
) -> None:
    made, ready = TrainedModel(run, folder, corpus), tokenised(corpus, run.vocabulary, store)
    with processes.first_goes_first():
        if processes.is_first():
            ready.copy_subwords(folder)
    train, valid = short(ready.training_pairs), made.encode(corpus.valid)
    if processes.is_first():
        for line in _changes(made, len(train)):
            print(f"{run.corpus}: {line}")
    training = as_drawn(run.training)
    start = published_start(made.asked, folder)
    trainer = Trainer(
        made.untrained(), training, train, valid, folder, start=start, deadline=deadline
    )
    run.equip(trainer)
    progress = trainer.run()
    if processes.is_first():
        pd.DataFrame(progress.curve).to_csv(folder / "curve.csv", index=False)
        score(made, made.model(), corpus.tests)


def _changes(made: TrainedModel, trained_on: int) -> Iterator[str]:
    """A line of each way in which the text that is used is not the text that was given."""
    corpus = made.corpus
    if corpus.left_out:
        yield corpus.left_out
    if left_out := len(corpus.train) - trained_on:
        yield f"left out {left_out} pairs over {LONGEST} subwords"
    for name, pairs in {"valid": corpus.valid, **corpus.tests}.items():
        sides = (made.source.encode(pairs.source), made.target.encode(pairs.target))
        if count := sum(len(row) > LONGEST_EVALUATED for side in sides for row in side):
            yield f"{name}: {count} lines cut to their first {LONGEST_EVALUATED} subwords"


def score(made: TrainedModel, model: Transformer, tests: Mapping[str, Pairs]) -> None:
    """Translates test sets with the model; translations, BLEU and chrF go to the run's folder."""
    rows = []
    for name, pairs in tests.items():
        encoded = cut(made.source.encode(pairs.source))
        translations = translate_corpus(model, encoded, made.target, made.run.search)
        (made.folder / f"{name}.txt").write_text("\n".join(translations) + "\n")
        for casing in Casing:
            found = asdict(bleu(translations, pairs.target, casing))
            letters = asdict(chrf(translations, pairs.target, casing))
            found |= {f"chrf_{column}": value for column, value in letters.items()}
            rows.append({"test": name, "casing": str(casing), **found})
    pd.DataFrame(rows).to_csv(made.folder / "bleu.csv", index=False)


def heads_of(trained: TrainedModel) -> Heads:
    """Every head of the model."""
    return tuple(all_heads(trained.untrained()))


def primary(trained: TrainedModel) -> str:
    """The name of the model's primary test set."""
    return next(iter(trained.corpus.tests))
