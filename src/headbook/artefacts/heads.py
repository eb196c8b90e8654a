"""The stage `heads`: measures of every head of one model on one text, as sums.

Each measure is stored under a key of its own. Those that the store lacks are measured together, in
one pass over the text; a new measure, or a new version of one, leaves the others as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from headbook.artefacts.encoders import EncoderModel
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.texts import Text
from headbook.corpora.batches import EOS, Batch, EncodedPair, in_order
from headbook.corpora.subwords import frequency_ranks
from headbook.heads.arcs import PieceRule
from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import EdgeQueries, PositionalShare
from headbook.heads.random_head import random_heads
from headbook.heads.rare import RareChance, RareShare, RareUnit
from headbook.heads.symmetry import TokenAsymmetry
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tokens import Counting, EosKeys, EosQueries
from headbook.runs.store import Ingredients, Stage, Store
from headbook.syntax.alignment import AlignedTree, align_all
from headbook.types import Kind

MEASURED = Stage("heads", version=1)
BATCH_TOKENS = 4096
SUMS = "sums.safetensors"


@dataclass(frozen=True)
class Choices:
    """Choices on which the paper is silent; the defaults are the declared ones."""

    eos_keys: EosKeys = EosKeys.EXCLUDED
    eos_queries: EosQueries = EosQueries.EXCLUDED
    edge_queries: EdgeQueries = EdgeQueries.EXCLUDED
    pieces: PieceRule = PieceRule.SUM
    rare_unit: RareUnit = RareUnit.QUERY

    @property
    def counting(self) -> Counting:
        return Counting(self.eos_keys, self.eos_queries)


DEFAULT = Choices()


@dataclass(frozen=True)
class HeadsRun:
    """Measurements of a model: at `update` 0 before training, at None the best model."""

    text: str
    update: int | None = None
    choices: Choices = DEFAULT


WithEncoder = TrainedModel | EncoderModel
Measured = Mapping[str, RatioSums]
"""Sums by name: `confidence/encoder`, `positional/encoder`, `syntactic`, `rare` and so on."""


@dataclass(frozen=True)
class MeasureRun:
    """The key material of one measure."""

    measure: str
    version: int
    run: HeadsRun


def measured(trained: WithEncoder, text: Text, run: HeadsRun, store: Store) -> Measured:
    """All measures of the model's heads on the text, from the store or measured now.

    Of an encoder without a decoder those that need no translations.
    """
    if isinstance(trained, EncoderModel):
        text = replace(text, targets=None)
    asked = {name: _ingredients(name, trained, text, run) for name in sorted(_possible(text))}
    while missing := [name for name, each in asked.items() if not store.has(each)]:
        work = partial(_measure, trained, text, run, store, {name: asked[name] for name in missing})
        store.get(asked[missing[0]], work)
    sums: dict[str, RatioSums] = {}
    for folder in store.hand_over(asked.values()):
        sums |= read_sums(folder / SUMS)
    return sums


def _ingredients(name: str, trained: WithEncoder, text: Text, run: HeadsRun) -> Ingredients:
    made_by, inputs = trained.asked, {"model": trained.asked.key, "text": text.digest}
    asked = MeasureRun(name, MEASURES[name].version, run)
    return Ingredients(MEASURED, asked, inputs, made_by.policy)


def read_sums(path: Path) -> Measured:
    """Reads a file of `write_sums`."""
    tensors = load_file(path)
    names = {name.rpartition(" ")[0] for name in tensors}
    return {
        name: RatioSums(tensors[f"{name} numerator"], tensors[f"{name} denominator"])
        for name in sorted(names)
    }


def write_sums(path: Path, sums: Measured) -> None:
    """Numerators and denominators of every measure, with halves and replicates."""
    tensors = {f"{name} numerator": each.numerator.contiguous() for name, each in sums.items()}
    tensors |= {f"{name} denominator": each.denominator.contiguous() for name, each in sums.items()}
    save_file(tensors, path)


def _measure(
    trained: WithEncoder,
    text: Text,
    run: HeadsRun,
    store: Store,
    asked: Mapping[str, Ingredients],
    folder: Path,
) -> None:
    """Measures all of these in one pass; `folder` is the first one's, the store keeps the others.

    Whoever waits for the first finds all of them.
    """
    given = Given(trained, text, run.choices)
    measures = {name: MEASURES[name].make(given) for name in asked}
    on_model = [each for name, each in measures.items() if not MEASURES[name].random]
    model = trained.model(run.update)
    batches = list(in_order(encoded(trained, text), BATCH_TOKENS))
    if on_model:
        collect(model, batches, on_model, partial(bar, what="measuring"))
    for batch in batches:
        for name, measure in measures.items():
            if MEASURES[name].random:
                measure.update(random_heads(batch, Kind.ENCODER), batch)
    sums = {name: measure.sums() for name, measure in measures.items()}
    first, *others = asked
    for name in others:
        store.get(asked[name], partial(_write_one, name, sums))
    _write_one(first, sums, folder)


def bar(batches: list[Batch], what: str) -> tqdm:
    """Progress over the batches."""
    return tqdm(batches, desc=what, unit="batch", mininterval=2)


def _write_one(name: str, sums: Measured, folder: Path) -> None:
    write_sums(folder / SUMS, {name: sums[name]})


def encoded(trained: WithEncoder, text: Text) -> list[EncodedPair]:
    """The text's ids; a text without translations is given empty ones."""
    sources = trained.source.encode(text.sentences)
    if text.targets is None:
        return [(source, [EOS]) for source in sources]
    return list(zip(sources, trained.target.encode(text.targets), strict=True))


def aligned(trained: WithEncoder, text: Text) -> list[AlignedTree]:
    """Every tree laid on the pieces of its sentence."""
    return [align_all(tree, [*trained.source.spans(tree.text), None]) for tree in text.trees]


@dataclass(frozen=True)
class Given:
    """The material of measures: each part is made when a measure first needs it."""

    trained: WithEncoder
    text: Text
    choices: Choices

    @cached_property
    def trees(self) -> list[AlignedTree]:
        return aligned(self.trained, self.text)

    @cached_property
    def ranks(self) -> torch.Tensor:
        """Every source subword's rank by frequency in the training text."""
        source = self.trained.source
        return frequency_ranks(source.encode(self.trained.corpus.train.source), len(source))


@dataclass(frozen=True)
class Entry:
    """One measure; its version moves when its numbers do, and only then.

    A random one is of one encoder head of random weights: it shows the value of knowing nothing.
    """

    make: Callable[[Given], HeadMeasure]
    version: int = 1
    needs_targets: bool = False
    random: bool = False


def _syntactic(given: Given) -> HeadMeasure:
    return SyntacticAccuracy(given.trees, given.choices.pieces, given.choices.eos_keys)


def _offsets(given: Given) -> HeadMeasure:
    return OffsetShare(given.trees, given.choices.pieces)


def _rare(given: Given) -> HeadMeasure:
    return RareShare(given.ranks, given.choices.rare_unit, counting=given.choices.counting)


def _rare_chance(given: Given) -> HeadMeasure:
    return RareChance(given.ranks, given.choices.rare_unit, counting=given.choices.counting)


def _asymmetry(given: Given) -> HeadMeasure:
    return TokenAsymmetry()


def _confidence(kind: Kind, given: Given) -> HeadMeasure:
    return Confidence(kind, given.choices.counting)


def _positional(kind: Kind, given: Given) -> HeadMeasure:
    return PositionalShare(kind, given.choices.counting, given.choices.edge_queries)


def _entries() -> dict[str, Entry]:
    found = {
        "syntactic": Entry(_syntactic), "offsets": Entry(_offsets), "rare": Entry(_rare),
        "rare chance": Entry(_rare_chance), "asymmetry": Entry(_asymmetry),
    }  # fmt: skip
    for kind in Kind:
        translated = kind is not Kind.ENCODER
        for name, make in (("confidence", _confidence), ("positional", _positional)):
            found[f"{name}/{kind}"] = Entry(partial(make, kind), needs_targets=translated)
    for name in ("syntactic", "rare", "confidence/encoder", "positional/encoder"):
        found[f"random {name}"] = replace(found[name], random=True)
    return found


MEASURES: dict[str, Entry] = _entries()
"""Every measure by its name among the sums."""


def _possible(text: Text) -> list[str]:
    """The measures of a text: without translations those of the encoder alone."""
    return [n for n, each in MEASURES.items() if text.targets is not None or not each.needs_targets]
