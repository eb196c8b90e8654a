"""The stage `language`: a text becomes subwords and a decoder-only language model of it."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain, count, islice
from pathlib import Path
from statistics import mean
from typing import ClassVar

import pandas as pd
import torch

from headbook.artefacts.model import ModelRun, Size
from headbook.artefacts.trained import Trained, as_drawn, numeric_policy, trained_folder
from headbook.artefacts.watching import Look, Watched, Watcher, looks_in
from headbook.corpora.batches import PAD, EncodedPair, epoch, in_order
from headbook.corpora.plain_text import PlainText, cut, filled, load_text
from headbook.corpora.subwords import Subwords
from headbook.models.delight import BlockScaling, DelightTransformer
from headbook.models.drop_head import DropHeadSchedule, drop_heads, set_rate
from headbook.models.published import PublishedTransformer
from headbook.models.transformer import (
    HeadCounts,
    NormPlacement,
    Transformer,
    TransformerConfig,
)
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.scoring import nats
from headbook.types import UserError

LANGUAGE = Stage("language", version=1)
PUBLISHED_RATE = 0.01
"""Of the article's notebook, at every update."""
COUNT_PADDING = -100
"""An id no token has: nothing is left out of the loss."""


OFTEN = Watched()
NEVER = DropHeadSchedule(0.0, 0.0)
SCALED = BlockScaling()


class Setting(StrEnum):
    """One of the article's two models."""

    PUBLISHED = "as published"
    """As its notebook ran: see models/published.py; a constant learning rate; segments of whole
    lines, padded, and padding in the loss."""
    DESCRIBED = "as described"
    """As its text describes it: a causal post-norm decoder, on a text without padding."""


@dataclass(frozen=True)
class LanguageRun:
    """Everything that decides a language model."""

    stage: ClassVar[Stage] = LANGUAGE

    corpus: str
    size: Size
    vocabulary: int
    dropout: float
    training: TrainingConfig
    setting: Setting = Setting.DESCRIBED
    context: int = 256
    lines: int | None = None  # the first so many training lines; all where None
    watched: Watched = OFTEN

    def __post_init__(self) -> None:
        if self.watched.segments < 1:
            raise UserError(
                f"a probe of {self.watched.segments} segments is empty; give at least 1"
            )

    def with_seed(self, seed: int) -> "LanguageRun":
        return replace(self, training=replace(self.training, seed=seed))

    def equip(self, trainer: Trainer) -> None:
        """Additions of a kind of run to its training; none here."""

    @property
    def label(self) -> str:
        return f"{self.corpus} {self.setting}, {self.size.heads} heads, seed {self.training.seed}"

    def ingredients(self) -> Ingredients:
        """The key material of a model that may not be trained yet."""
        return ingredients(self, text_of(self.corpus, self.lines))

    def trained(self, store: Store, deadline: float = math.inf) -> "LanguageModel":
        """From the store or trained now, in one process. OutOfTimeError at the deadline."""
        text = text_of(self.corpus, self.lines)
        folder = trained_folder(
            store, self.ingredients(), lambda aside: _train(self, text, aside, deadline)
        )
        return LanguageModel(self, folder, text)


@dataclass(frozen=True)
class SharingRun(LanguageRun):
    """A language model whose heads share keys and values, or are unequal in number by layer."""

    key_value_heads: int | None = None
    layer_heads: tuple[int, ...] | None = None  # as wide as the others, so fewer are narrower


@dataclass(frozen=True)
class DelightRun(LanguageRun):
    """A language model of DeLighT's blocks: one narrow head behind a deep transformation."""

    scaling: BlockScaling = SCALED


@dataclass(frozen=True)
class DroppingRun(LanguageRun):
    """A language model that is trained with DropHead."""

    drop_head: DropHeadSchedule = NEVER

    def equip(self, trainer: Trainer) -> None:
        drop_on_schedule(trainer, self.drop_head)


@dataclass(frozen=True)
class LanguageModel(Trained):
    """A finished run of the stage and what can be read from it."""

    run: LanguageRun
    folder: Path
    text: PlainText

    @property
    def asked(self) -> Ingredients:
        return ingredients(self.run, self.text)

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords.load(self.folder / "subwords.json")

    @cached_property
    def looks(self) -> list[Look]:
        """The four metrics through training."""
        return looks_in(self.folder / "watched")

    def untrained(self) -> Transformer:
        """The model before its first update, in eval mode."""
        torch.manual_seed(derived(self.run.training.seed, "initial weights"))
        return initial(self.run, len(self.subwords)).eval()

    def nats(self, model: Transformer, segments: Sequence[EncodedPair]) -> float:
        """Cross-entropy a token of a model of this shape."""
        return nats(model, segments, self.run.training.tokens)

    def segments(self, lines: Sequence[str]) -> list[EncodedPair]:
        """The lines as the setting cuts them. UserError where they make no segment."""
        encoded = self.subwords.encode(lines)
        published = self.run.setting is Setting.PUBLISHED
        return (filled if published else cut)(encoded, self.run.context)

    def padding(self, updates: int) -> list[float]:
        """Share of padding among the tokens of each of the first training batches."""
        segments, training = self.segments(self.text.train), as_drawn(self.run.training)
        share = [segment.count(PAD) / self.run.context for _, segment in segments]
        plans = (epoch(segments, training.tokens, training.seed, number) for number in count())
        return [mean(share[index] for index in batch)
                for batch in islice(chain.from_iterable(plans), updates)]  # fmt: skip


def initial(run: LanguageRun, vocabulary: int) -> Transformer:
    """The run's model with random weights."""
    size = run.size
    if run.setting is Setting.PUBLISHED:
        return PublishedTransformer(
            vocabulary, size.layers, size.width, size.feed_forward, size.heads, run.dropout
        )
    config = TransformerConfig(
        vocabulary, vocabulary, 0, size.layers, size.width, size.feed_forward, size.heads,
        run.dropout, NormPlacement.POST,
    )  # fmt: skip
    if isinstance(run, DelightRun):
        return DelightTransformer(config, run.scaling)
    return Transformer(_shared(config, run) if isinstance(run, SharingRun) else config)


def _shared(config: TransformerConfig, run: SharingRun) -> TransformerConfig:
    """UserError where the heads do not divide, or are given for another number of layers."""
    if run.layer_heads is None:
        return replace(config, key_value_heads=run.key_value_heads)
    if len(run.layer_heads) != run.size.layers:
        raise UserError(
            f"heads are given for {len(run.layer_heads)} layers and the model has {run.size.layers}"
        )
    counts = HeadCounts((), run.layer_heads, ())
    return replace(config, head_counts=counts, key_value_heads=run.key_value_heads)


def ingredients(run: LanguageRun, text: PlainText) -> Ingredients:
    """The run's key material."""
    return Ingredients(LANGUAGE, run, {"text": text.digest}, numeric_policy(run.training))


@lru_cache(maxsize=4)
def text_of(corpus: str, lines: int | None) -> PlainText:
    """The text, read once a process."""
    return load_text(corpus, lines)


def language_model(run: LanguageRun, store: Store, deadline: float = math.inf) -> LanguageModel:
    """The run's model, see `LanguageRun.trained`."""
    return run.trained(store, deadline)


def _train(run: LanguageRun, text: PlainText, folder: Path, deadline: float) -> None:
    made = LanguageModel(run, folder, text)
    if not (folder / "subwords.json").exists():
        Subwords.train(text.train, run.vocabulary).save(folder / "subwords.json")
    trainer = _trainer(made)
    trainer.deadline = deadline
    pd.DataFrame(trainer.run().curve).to_csv(folder / "curve.csv", index=False)
    scores = _scores(made, trainer)
    (folder / "scores.json").write_text(json.dumps(scores))


def _trainer(made: LanguageModel) -> Trainer:
    run = made.run
    valid = made.segments(made.text.valid)
    probe = list(in_order(valid[: run.watched.segments], run.training.tokens))
    training = as_drawn(run.training)
    trainer = Trainer(
        made.untrained(), training, made.segments(made.text.train), valid, made.folder,
        observer=Watcher(made.folder / "watched", probe, run.watched),
    )  # fmt: skip
    if run.setting is Setting.PUBLISHED:
        trainer.rate, trainer.ignored = lambda _: PUBLISHED_RATE, COUNT_PADDING
    run.equip(trainer)
    return trainer


def drop_on_schedule(trainer: Trainer, schedule: DropHeadSchedule) -> None:
    """Lets the trainer's model drop heads, at the rate of the schedule from update to update."""
    updates = trainer.config.updates
    drop_heads(trainer.model)
    trainer.prepare = lambda model, update: set_rate(model, schedule.rate(update, updates))


def _scores(made: LanguageModel, trainer: Trainer) -> dict[str, float]:
    """Of the test lines; a word is what stands between spaces, as WikiText-2 counts.

    Where padding is in the loss no word has a share of it: perplexity a word is left out.
    """
    checkpoint.load_model(trainer.model, made.folder / "best.safetensors")
    trainer.valid = made.segments(made.text.test)
    loss = trainer.validate()
    found = {"test_nats": loss, "test_perplexity": math.exp(loss)}
    if made.run.setting is Setting.DESCRIBED:
        tokens = sum(map(len, made.subwords.encode(made.text.test)))
        words = sum(len(line.split()) + 1 for line in made.text.test)  # and the line's end
        found["test_perplexity_word"] = math.exp(loss * tokens / words)
    return found


def given(run: ModelRun | LanguageRun) -> dict[str, object]:
    """The fields of a run by name, for a run of another kind that is alike in them."""
    return {field.name: getattr(run, field.name) for field in fields(run)}


def light(base: LanguageRun) -> tuple[LanguageRun, ...]:
    """A model, one of DeLighT's blocks at its width, and one of ours at three quarters of it.

    The last two have about as many weights in their blocks.
    """
    same = given(base)
    same["watched"] = Watched(every=0)  # a single head has no other
    size = base.size
    thinner = replace(size, width=size.width * 3 // 4, feed_forward=size.feed_forward * 3 // 4)
    return (
        base,
        DelightRun(**same | {"size": replace(size, heads=1)}),
        LanguageRun(**same | {"size": thinner}),
    )
