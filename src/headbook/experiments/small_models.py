"""Small language models and translators, trained anew for every page from 36 to 39."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd
import torch

from headbook.corpora.plain_text import cut, load_text
from headbook.corpora.readers import load
from headbook.looking.diversity import diversity
from headbook.models import checkpoint
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.results import cached
from headbook.runs.seeds import derived
from headbook.text.batches import EncodedPair, in_order
from headbook.text.subwords import Subwords
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.types import Kind


@dataclass(frozen=True)
class Setting:
    """A corpus and how models of it are trained and measured; of pages 37 and 38 by default."""

    corpus: str = "wikitext-2"
    vocabulary: int = 5002
    context: int = 256  # tokens of a language model's segment; 0 for translation
    width: int = 128
    layers: int = 6
    dropout: float = 0.1
    updates: int = 400
    scale: float = 0.16  # of the learning rate
    warmup: int = 200
    smoothing: float = 0.0  # of labels
    every: int = 200  # updates between validations
    watched: int = 20  # updates between looks, from two fifths on; 0: one look, at the end
    probe: int = 8  # first segments, or pairs, of validation text on which diversity is measured
    held: int = 32  # ... and on which heads are closed
    levels: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    orders: int = 3  # in which heads are closed

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that the models have."""
        return (Kind.DECODER,) if self.context else tuple(Kind)


class Texts(NamedTuple):
    """Subwords of both sides, encoded pairs or segments, and references of the test set."""

    subwords: tuple[Subwords, Subwords]
    train: list[EncodedPair]
    valid: list[EncodedPair]
    test: list[EncodedPair]
    references: tuple[str, ...] = ()


@lru_cache(maxsize=2)
def texts(corpus: str, vocabulary: int, context: int) -> Texts:
    """A corpus of pairs; with a `context` a text, in segments of so many tokens."""
    if context:
        text = load_text(corpus)
        own = Subwords.train(text.train, vocabulary)
        parts = (cut(own.encode(each), context) for each in (text.train, text.valid, text.test))
        return Texts((own, own), *parts)
    pairs = load(corpus, None)
    sides = (pairs.train.source, pairs.train.target)
    one, other = (Subwords.train(each, vocabulary) for each in sides)
    test = next(iter(pairs.tests.values()))
    found = (
        list(zip(one.encode(each.source), other.encode(each.target), strict=True))
        for each in (pairs.train, pairs.valid, test)
    )
    return Texts((one, other), *found, tuple(test.target))


class Trained(NamedTuple):
    """The network with the least validation loss, its curve, and looks at its heads' diversity."""

    network: Transformer
    curve: pd.DataFrame
    looks: pd.DataFrame


def train(
    setting: Setting,
    seed: int,
    equip: Callable[[Trainer], object] = lambda _: None,
    make: Callable[[TransformerConfig], Transformer] = Transformer,
    look: Callable[..., pd.DataFrame] = diversity,
) -> Trained:
    """The model of a seed; `equip` changes the trainer, `make` the network, `look` the measure."""
    text = texts(setting.corpus, setting.vocabulary, setting.context)
    torch.manual_seed(derived(seed, "initial weights"))
    layers = (0 if setting.context else setting.layers, setting.layers)
    shape = (*map(len, text.subwords), *layers, setting.width, 4 * setting.width, 8)
    norm = NormPlacement.POST if setting.context else NormPlacement.PRE
    network, looks = make(TransformerConfig(*shape, setting.dropout, norm)), []
    config = TrainingConfig(
        setting.updates, scale=setting.scale, warmup=setting.warmup, seed=derived(seed, "training"),
        label_smoothing=setting.smoothing, validate_every=setting.every,
    )  # fmt: skip
    probe = list(in_order(text.valid[: setting.probe], config.tokens))

    def watch(model: Transformer, update: int) -> None:
        if setting.watched and update % setting.watched == 0 and update >= 0.4 * setting.updates:
            looks.append(look(model.eval(), setting.kinds, probe))

    curve = best(network, config, text.train, text.valid, equip, before=[watch])
    looks = looks or [look(network, setting.kinds, probe)]
    return Trained(network, curve, pd.concat(looks))


def best(
    network: Transformer,
    config: TrainingConfig,
    train: Sequence[EncodedPair],
    valid: Sequence[EncodedPair],
    equip: Callable[[Trainer], object] = lambda _: None,
    **more: object,
) -> pd.DataFrame:
    """Trains the network to its least validation loss, in evaluation mode, and gives the curve."""
    with TemporaryDirectory() as folder:
        trainer = Trainer(network, config, train, valid, Path(folder), **more)
        equip(trainer)
        curve = pd.DataFrame(trainer.run().curve)
        checkpoint.load_model(network.eval(), Path(folder) / "best.safetensors")
    return curve


def each_kept(
    measured: Callable[..., pd.DataFrame], setting: Setting, runs: Sequence[Mapping]
) -> pd.DataFrame:
    """The rows of every run, labelled with what it is of; each is computed once and kept."""
    rows = [cached(measured, setting=setting, **run).assign(**run) for run in runs]
    return pd.concat(rows)
