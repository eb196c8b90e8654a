"""Small models: one of ours in a folder, and one whose heads have planted functions."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from known_heads import at_eos, at_offset, at_partner, at_rarest, uniform
from torch import Tensor, nn

import headbook as hb
from headbook.heads.scores import ranks_in
from headbook.looking.ours import OurModel, trained
from headbook.looking.text import Text, text
from headbook.models import checkpoint
from headbook.models.capture import Point
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.alignment import align_all
from headbook.text.batches import EOS, UNK, Batch, in_order
from headbook.text.subwords import Subwords
from headbook.text.trees import RELATION_DIRECTIONS, Direction
from headbook.types import Kind, UserError

OBJECT = RELATION_DIRECTIONS.index(("dobj", Direction.HEAD_TO_DEPENDENT))


@pytest.fixture(scope="session")
def sample() -> Text:
    """200 sentences: enough types for a rare word to be outside the 500 most frequent."""
    return text("ewt-sample", first=200)


@pytest.fixture(scope="session")
def subwords(sample: Text) -> Subwords:
    return Subwords.train(sample.sentences, 700)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory, subwords: Subwords) -> Path:
    """An untrained transformer with two layers of two heads, as a finished run leaves it."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("source.json", "target.json"):
        subwords.save(folder / name)
    torch.manual_seed(0)
    config = TransformerConfig(len(subwords), len(subwords), 2, 2, 16, 24, 2, dropout=0.0)
    checkpoint.save_model(Transformer(config), folder / "best.safetensors")
    return folder


@pytest.fixture(scope="session")
def ours(run_folder: Path) -> OurModel:
    return trained(run_folder)


class PlantedBlock(nn.Module):
    """Attention with the weights of planted heads; values are random vectors of the ids."""

    def __init__(self, plants: Sequence[Callable[[Batch], Tensor]]) -> None:
        super().__init__()
        self.plants, self.heads = plants, len(plants)
        self.record, self.gate, self.edits = None, None, {}

    def forward(self, batch: Batch, values: Tensor) -> Tensor:
        weights = torch.stack([plant(batch) for plant in self.plants], dim=1)
        context = weights @ values[:, None]
        if self.gate is not None:
            context = context * self.gate()[..., None, None]
        if self.record is not None:
            self.record(Point.WEIGHTS, weights)
            self.record(Point.CONTEXT, context)
        return context.sum(1)


class PlantedNetwork(nn.Module):
    def __init__(self, layers: Sequence[Sequence[Callable[[Batch], Tensor]]], vocabulary: int):
        super().__init__()
        self.blocks = nn.ModuleList(PlantedBlock(plants) for plants in layers)
        torch.manual_seed(0)
        self.values = nn.Embedding(vocabulary, 8)

    def attentions(self) -> Iterator[tuple[Kind, int, PlantedBlock]]:
        for layer, block in enumerate(self.blocks):
            yield Kind.ENCODER, layer, block

    def forward(self, batch: Batch) -> Tensor:
        values = self.values(batch.source)
        return sum(block(batch, values) for block in self.blocks)


@dataclass
class PlantedModel:
    """Words between spaces are tokens; nothing is predicted."""

    vocabulary: dict[str, int]
    network: nn.Module | None = None
    name: str = "planted"
    origin: str = "made for a test"
    languages: tuple[str, str | None] = ("en", None)
    unknown: int = UNK

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None = None, tokens: int = 4096
    ) -> list[Batch]:
        ids = ([self.vocabulary.get(word, UNK) for word in each.split()] for each in sentences)
        return list(in_order([([*row, EOS], [EOS]) for row in ids], tokens))

    def spans(self, sentence: str, target: bool = False) -> list[tuple[int, int] | None]:
        return [*(word.span() for word in re.finditer(r"\S+", sentence)), None]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        return [*sentence.split(), "</s>"]

    def losses(self, batch: Batch, shortlist: bool = False) -> Tensor:
        raise UserError("planted predicts nothing")

    def encoded(self, batch: Batch) -> Tensor:
        return self.network(batch)

    def translate(self, sentences: Sequence[str]) -> list[str]:
        raise UserError("planted translates nothing")


@pytest.fixture(scope="session")
def planted(sample: Text) -> PlantedModel:
    """Layer 1: offsets -1, +1, 0 and +2; layer 2: rarest token, object, all tokens, EOS."""
    words = sorted({word for sentence in sample.sentences for word in sentence.split()})
    model = PlantedModel({word: number for number, word in enumerate(words, start=3)})
    ranks = ranks_in(model.batches(sample.sentences))
    trees = [align_all(tree, model.spans(tree.text)) for tree in sample.trees]
    offsets = [partial(at_offset, offset=offset) for offset in (-1, 1, 0, 2)]
    others = [partial(at_rarest, ranks=ranks), partial(at_partner, trees=trees, column=OBJECT)]
    model.network = PlantedNetwork([offsets, [*others, uniform, at_eos]], len(words) + 3)
    return model


@pytest.fixture(scope="session")
def with_weights() -> Callable[..., PlantedModel]:
    """A model whose attention in the first, second, … sentence that it reads is given, [layer,
    head, token, token]; tokens are the words between spaces, and EOS."""

    def make(*given: Tensor) -> PlantedModel:
        def plant(batch: Batch, layer: int, head: int) -> Tensor:
            found = torch.zeros(len(batch), *[batch.source.shape[1]] * 2)
            for row, number in zip(found, batch.sentences.tolist(), strict=True):
                own = given[number][layer, head]
                row[: len(own), : len(own)] = own
            return found

        layers, heads = (range(size) for size in given[0].shape[:2])
        plants = [[partial(plant, layer=one, head=two) for two in heads] for one in layers]
        return PlantedModel({}, PlantedNetwork(plants, UNK + 1))

    return make


@pytest.fixture(scope="session")
def planted_table(planted: PlantedModel, sample: Text) -> pd.DataFrame:
    return hb.measure(planted, sample, nulls=0, ablated=2, progress=False)
