"""The stage `heads`: every measure of every head of one model on one text, as sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from headbook.artefacts.model import TrainedModel
from headbook.artefacts.shares import bar, kept_or_made, share_of
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
from headbook.syntax.alignment import AlignedTree, align
from headbook.training import processes
from headbook.types import Kind

MEASURED = Stage("heads", version=1)
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Choices:
    """Where the paper is silent; the defaults are the declared ones."""

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
    """What is measured of a model: at `update` 0 before training, at None the best model."""

    text: str
    update: int | None = None
    choices: Choices = DEFAULT


Measured = Mapping[str, RatioSums]
"""Sums by name: `confidence/encoder`, `positional/encoder`, `syntactic`, `rare` and so on."""


def measured(trained: TrainedModel, text: Text, run: HeadsRun, store: Store) -> Measured:
    """All measures of the model's heads on the text, from the store or measured now.

    Under torchrun every process measures its share of the batches.
    """
    made_by = trained.asked
    asked = Ingredients(MEASURED, run, {"model": made_by.key, "text": text.digest}, made_by.policy)
    folder = kept_or_made(store, asked, lambda aside: _measure(trained, text, run, aside))
    return read_sums(folder / "sums.safetensors")


def read_sums(path: Path) -> Measured:
    """What `write_sums` wrote."""
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


def _measure(trained: TrainedModel, text: Text, run: HeadsRun, folder: Path) -> None:
    pairs = encoded(trained, text)
    trees = aligned(trained, text)
    ranks = frequency_ranks(trained.source.encode(trained.corpus.train.source), len(trained.source))
    measures = _measures(trees, ranks, run.choices, both_sides=text.targets is not None)
    model = trained.model(run.update)
    batches = list(in_order(pairs, BATCH_TOKENS))
    share = share_of(batches)
    collect(model, share, list(measures.values()), partial(bar, what="measuring"))
    random = _random(trees, ranks, run.choices, share)
    sums = _sums(measures | random, len(processes.mine(batches)))
    if processes.is_first():
        write_sums(folder / "sums.safetensors", sums)


def _sums(measures: Mapping[str, HeadMeasure], own_batches: int) -> Measured:
    """What all processes measured, added."""
    for measure in measures.values():
        if not own_batches:
            measure.forget()
    with processes.collective():
        return {name: measure.sums() for name, measure in measures.items()}


def encoded(trained: TrainedModel, text: Text) -> list[EncodedPair]:
    """The text's ids; a text without translations is given empty ones."""
    sources = trained.source.encode(text.sentences)
    if text.targets is None:
        return [(source, [EOS]) for source in sources]
    return list(zip(sources, trained.target.encode(text.targets), strict=True))


def aligned(trained: TrainedModel, text: Text) -> list[AlignedTree]:
    """Every tree laid on the pieces of its sentence."""
    return [align(tree, trained.source.spans(tree.text)) for tree in text.trees]


def _measures(
    trees: list[AlignedTree], ranks: torch.Tensor, choices: Choices, both_sides: bool
) -> dict[str, HeadMeasure]:
    kinds = list(Kind) if both_sides else [Kind.ENCODER]
    measures: dict[str, HeadMeasure] = {
        "syntactic": SyntacticAccuracy(trees, choices.pieces, choices.eos_keys),
        "offsets": OffsetShare(trees, choices.pieces),
        "rare": RareShare(ranks, choices.rare_unit, counting=choices.counting),
        "rare chance": RareChance(ranks, choices.rare_unit, counting=choices.counting),
        "asymmetry": TokenAsymmetry(),
    }
    for kind in kinds:
        measures[f"confidence/{kind}"] = Confidence(kind, choices.counting)
        measures[f"positional/{kind}"] = PositionalShare(
            kind, choices.counting, choices.edge_queries
        )
    return measures


def _random(
    trees: list[AlignedTree], ranks: torch.Tensor, choices: Choices, batches: list[Batch]
) -> dict[str, HeadMeasure]:
    """The same measures of one head of random weights: what knowing nothing gives."""
    measures = {
        name: measure
        for name, measure in _measures(trees, ranks, choices, both_sides=False).items()
        if name in ("syntactic", "rare", "confidence/encoder", "positional/encoder")
    }
    for batch in batches:
        for measure in measures.values():
            measure.update(random_heads(batch, Kind.ENCODER), batch)
    return {f"random {name}": measure for name, measure in measures.items()}
