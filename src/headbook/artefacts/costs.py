"""Cost of training a model: operations, seconds on a device, memory, disk."""

import math
from dataclasses import dataclass, replace
from functools import cache

import torch

from headbook.artefacts.encoders import EncoderRun
from headbook.artefacts.language import LanguageRun, initial
from headbook.artefacts.model import ModelRun, Size
from headbook.artefacts.recipe import Run
from headbook.bench.speed import operations
from headbook.corpora.batches import EOS, UNK, collate
from headbook.corpora.plain_text import NO_SOURCE
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.training.config import TrainingConfig
from headbook.types import UserError

SENTENCE = 16
"""Subwords a sentence, EOS included: between those of tatoeba, 10, and of msdocs, 20."""
PRODUCT_SHARE = 0.6
"""Of the matrix rate: what the products of a step reach on a processor, being smaller."""
BESIDE = 0.7
"""GFLOP/s a thread and unit of width of a step whose products took no time: its other work (dropout
masks, softmax, norms, Adam) grows with the width where products grow with its square."""
ACCELERATOR = 20_000.0
"""GFLOP/s that no processor reaches: a higher rate is taken for an accelerator's."""
AIM = 0.35
"""Of an accelerator's matrix rate: what is aimed at; not measured."""
TRAINED_BYTES = 4 + 4 + 8 + 2
"""A parameter in training: itself, its gradient, two moments, and a copy in 16 bits."""
WIDTH_BYTES, SCORE_BYTES, LOGIT_BYTES = 120, 18, 16
"""Stored for the backward pass, as counted in steps in bfloat16: a token, layer of both stacks and
unit of width; a token, layer, head and key; a token and word of the vocabulary."""


@dataclass(frozen=True)
class Device:
    """A training device: GFLOP/s in large matrix products, and the share that training reaches."""

    rate: float
    threads: int = 1
    share: float | None = None  # by what was measured where None

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise UserError(f"rate is {self.rate:g} GFLOP/s; give a number above 0")
        if self.share is not None and not 0 < self.share <= 1:
            raise UserError(f"share is {self.share:g}; give a part of 1, above 0")

    def share_at(self, width: int) -> float:
        """The share given, or the one expected of a model of that width.

        An accelerator's is an AIM. On a processor a step takes the time of its products and of the
        rest: 1 / (1 / PRODUCT_SHARE + rate / (BESIDE · width · threads)). That gives what was
        measured: a quarter of the 385 GFLOP/s of two cores at width 128, nearly half at 512; and,
        by `headbook bench`, 3 % at 128 and 8 % at 256 where matrix units make the rate so high
        (some 5,000, worked out from the tokens a second) that little depends on it.
        """
        if self.share is not None:
            return self.share
        if self.rate > ACCELERATOR:
            return AIM
        return 1 / (1 / PRODUCT_SHARE + self.rate / (BESIDE * width * self.threads))

    def seconds(self, work: float, width: int) -> float:
        """Seconds that so many operations take in the training of a model of that width."""
        return work / (1e9 * self.rate * self.share_at(width))


@cache
def shape(size: Size, vocabulary: int) -> Transformer:
    """A model without storage, both its vocabularies as large as was asked for."""
    config = TransformerConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        width=size.width,
        feed_forward=size.feed_forward,
        heads=size.heads,
    )
    with torch.device("meta"):
        return Transformer(config)


@cache
def network(run: Run) -> Transformer:
    """The run's model without storage; subwords are taken to be as many as were asked for."""
    if isinstance(run, ModelRun):
        return shape(run.size, run.vocabulary)
    with torch.device("meta"):
        if isinstance(run, LanguageRun):
            return initial(run, run.vocabulary)
        return Transformer(run.config(run.vocabulary))


def parameters(run: Run) -> int:
    """Of the whole model, embeddings too."""
    return sum(weight.numel() for weight in network(run).parameters())


def work(run: Run) -> float:
    """Floating-point operations of a run's whole training, about."""
    if isinstance(run, ModelRun):
        return work_of(run, run.training)
    return language_work(run) if isinstance(run, LanguageRun) else encoder_work(run)


def work_of(run: ModelRun, training: TrainingConfig) -> float:
    """Floating-point operations of that training of the model, about.

    6 · parameters · tokens, two forward and four backward, with the output projection and without
    embeddings, which are looked up; and 12 · width for each pair of query and key. Batches are
    taken for full: `training.tokens` padded tokens a side, in sentences of SENTENCE. Real ones hold
    about a tenth less.
    """
    sentences = training.updates * training.tokens / SENTENCE
    return sentences * _work_of_sentence(run.size, run.vocabulary)


def spent_by(run: ModelRun | EncoderRun, update: int) -> float:
    """Operations of the training until that update; none before the first."""
    if update == 0:
        return 0.0
    training = replace(run.training, updates=update)
    if isinstance(run, EncoderRun):
        return encoder_work(replace(run, training=training))
    return work_of(run, training)


def language_work(run: LanguageRun) -> float:
    """The same of a language model's whole training, in segments of its context."""
    batch = collate([(NO_SOURCE, [UNK] * run.context)], [0])
    of_segment = operations(network(run), batch)
    return of_segment * run.training.updates * run.training.tokens / run.context


def encoder_work(run: EncoderRun) -> float:
    """The same of a language model of sentences, left to right or masked."""
    sentence = [UNK] * (SENTENCE - 1) + [EOS]
    batch = collate([(sentence, sentence)], [0])
    of_sentence = operations(network(run), batch)
    return of_sentence * run.training.updates * run.training.tokens / SENTENCE


@cache
def _work_of_sentence(size: Size, vocabulary: int) -> float:
    sentence = [UNK] * (SENTENCE - 1) + [EOS]
    return operations(shape(size, vocabulary), collate([(sentence, sentence)], [0]))


def memory(run: Run) -> int:
    """Bytes of weights, gradients, moments, and activations where they are most."""
    size, tokens = run.size, run.training.tokens
    stacks, keys = (2, SENTENCE) if isinstance(run, ModelRun) else (1, _length(run))
    layer = (WIDTH_BYTES * size.width + SCORE_BYTES * size.heads * keys) * stacks / 2
    kept = int(layer * size.layers) + LOGIT_BYTES * run.vocabulary
    return TRAINED_BYTES * parameters(run) + tokens * kept


def _length(run: LanguageRun | EncoderRun) -> int:
    return run.context if isinstance(run, LanguageRun) else SENTENCE


def disk(run: Run) -> int:
    """Bytes of snapshots, the best model, and twice the state (weights and two moments), which is
    written aside before it replaces the last one."""
    return 4 * parameters(run) * (_snapshots(replace(run.training, seed=0)) + 1 + 2 * 3)


@cache
def _snapshots(training: TrainingConfig) -> int:
    """Number of snapshots, the last model included."""
    return 1 + sum(map(training.is_snapshot, range(1, training.updates)))
