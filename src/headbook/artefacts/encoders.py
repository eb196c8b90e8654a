"""The stage `encoder`: a language model of the source side of a translation model's corpus.

Voita, Sennrich and Titov (2019) compare three encoders of one shape that learnt from one text: a
translation model's, which stage `model` trains, and the two of this stage. Text, subwords, shape
and dropout are the translation model's.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from headbook.artefacts.model import LONGEST, ModelRun, Size, corpus_of
from headbook.artefacts.tokenised import tokenised
from headbook.artefacts.trained import (
    Trained,
    as_drawn,
    numeric_policy,
    published_start,
    trained_folder,
)
from headbook.corpora.batches import EncodedPair
from headbook.corpora.masked import mask_id, masked_copies
from headbook.corpora.plain_text import NO_SOURCE
from headbook.corpora.readers import ParallelCorpus
from headbook.corpora.subwords import Subwords
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer

ENCODER = Stage("encoder", version=1)
COPIES = 10
"""Of each training sentence, differently masked: as many as BERT's own data preparation makes."""


class Objective(StrEnum):
    """The training objective of a model of one language."""

    LEFT_TO_RIGHT = "language model"
    """The next token: a decoder without an encoder."""
    MASKED = "masked language model"
    """Tokens that were hidden: an encoder without a decoder."""


@dataclass(frozen=True)
class EncoderRun:
    """Everything that decides a model of a text's source side.

    Of `text` count the corpus, the subwords, the size and the dropout; `training` is this model's.
    """

    stage: ClassVar[Stage] = ENCODER

    text: ModelRun
    objective: Objective
    training: TrainingConfig

    @property
    def corpus(self) -> str:
        return self.text.corpus

    @property
    def pairs(self) -> int | None:
        return self.text.pairs

    @property
    def size(self) -> Size:
        return self.text.size

    @property
    def vocabulary(self) -> int:
        return self.text.vocabulary

    def with_seed(self, seed: int) -> "EncoderRun":
        return replace(self, training=replace(self.training, seed=seed))

    @property
    def label(self) -> str:
        return f"{self.corpus} {self.objective}, seed {self.training.seed}"

    def ingredients(self) -> Ingredients:
        """The key material of a model that may not be trained yet."""
        return ingredients(self, corpus_of(self.corpus, self.pairs))

    def trained(self, store: Store, deadline: float = math.inf) -> "EncoderModel":
        """From the store or trained now, in one process. OutOfTimeError at the deadline."""
        corpus = corpus_of(self.corpus, self.pairs)
        folder = trained_folder(
            store, self.ingredients(), lambda aside: _train(self, corpus, store, aside, deadline)
        )
        return EncoderModel(self, folder, corpus)

    def config(self, vocabulary: int) -> TransformerConfig:
        """With one id more than the subwords, the mask's, where tokens are hidden."""
        size, masked = self.size, self.objective is Objective.MASKED
        ids = mask_id(vocabulary) + 1 if masked else vocabulary
        return TransformerConfig(
            ids, ids, size.layers if masked else 0, 0 if masked else size.layers,
            size.width, size.feed_forward, size.heads, self.text.dropout,
        )  # fmt: skip


@dataclass(frozen=True)
class EncoderModel(Trained):
    """A finished run of the stage and what can be read from it."""

    run: EncoderRun
    folder: Path
    corpus: ParallelCorpus

    @property
    def asked(self) -> Ingredients:
        return ingredients(self.run, self.corpus)

    @cached_property
    def source(self) -> Subwords:
        return Subwords.load(self.folder / "source.json")

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode."""
        return initial_encoder(self.run, len(self.source)).eval()

    def pairs(self, sentences: Sequence[str], copies: int, use: str) -> list[EncodedPair]:
        """Sentences as the objective reads them, without those over LONGEST subwords.

        A masked language model reads each of them `copies` times, masked by the seed of that use.
        """
        encoded = [row for row in self.source.encode(sentences) if len(row) <= LONGEST]
        if self.run.objective is Objective.LEFT_TO_RIGHT:
            return [(NO_SOURCE, row) for row in encoded]
        seed = derived(self.run.training.seed, f"masks of {use}")
        return masked_copies(encoded, len(self.source), copies, seed)


def initial_encoder(run: EncoderRun, vocabulary: int) -> Transformer:
    """The run's model before its first update, for so many subwords: the same for the same seed."""
    torch.manual_seed(derived(run.training.seed, "initial weights"))
    return Transformer(run.config(vocabulary))


def ingredients(run: EncoderRun, corpus: ParallelCorpus) -> Ingredients:
    """The run's key material."""
    return Ingredients(ENCODER, run, {"corpus": corpus.digest}, numeric_policy(run.training))


def encoder_model(run: EncoderRun, store: Store, deadline: float = math.inf) -> EncoderModel:
    """The run's model, see `EncoderRun.trained`."""
    return run.trained(store, deadline)


def _train(
    run: EncoderRun, corpus: ParallelCorpus, store: Store, folder: Path, deadline: float
) -> None:
    made = EncoderModel(run, folder, corpus)
    tokenised(corpus, run.vocabulary, store).copy_subwords(folder, ("source",))
    train = made.pairs(corpus.train.source, COPIES, "training")
    valid = made.pairs(corpus.valid.source, 1, "validation")
    training = as_drawn(run.training)
    start = published_start(made.asked, folder)
    trainer = Trainer(
        made.untrained(), training, train, valid, folder, start=start, deadline=deadline
    )
    pd.DataFrame(trainer.run().curve).to_csv(folder / "curve.csv", index=False)
    checkpoint.load_model(trainer.model, folder / "best.safetensors")
    test = next(iter(corpus.tests.values()))
    trainer.valid = made.pairs(test.source, 1, "test")
    (folder / "scores.json").write_text(json.dumps({"test_nats": trainer.validate()}))


def encoder_run(text: ModelRun, objective: Objective, seed: int) -> EncoderRun:
    """Trained as the translation model is, but without label smoothing.

    Whichever seed the translation model has, it is the same.
    """
    training = replace(text.training, label_smoothing=0.0, seed=seed)
    return EncoderRun(text.with_seed(0), objective, training)


def encoder_runs(text: ModelRun, seeds: Sequence[int]) -> tuple[EncoderRun, ...]:
    """Left to right and masked, of each seed."""
    return tuple(encoder_run(text, objective, seed) for seed in seeds for objective in Objective)
