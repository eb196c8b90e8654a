"""A little corpus with parses, its sentences of every awkward length, and random attention."""

from dataclasses import dataclass

import pytest
import torch
from blocks import wider

from headbook.models.capture import Point
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, Batch, collate
from headbook.types import Kind

LADDER = (1, 2, 9, 33, 129)
VOCABULARY = 1000


@dataclass(frozen=True)
class Corpus:
    """Encoded pairs and the aligned parse of every source sentence."""

    pairs: list
    trees: list[AlignedTree]

    def batch(self, sentences: list[int], extra: int = 0) -> Batch:
        """The sentences as one batch, padded by `extra` columns more than needed."""
        return wider(collate([self.pairs[each] for each in sentences], sentences), extra)


def _tree(length: int, number: int, generator: torch.Generator) -> AlignedTree:
    """Words of one to three pieces; each relation links two words that no other arc touches."""
    pieces: list[int] = []
    word = 0
    while len(pieces) < length:
        size = int(torch.randint(1, 4, (), generator=generator))
        pieces += [word] * min(size, length - len(pieces))
        word += 1
    free = torch.randperm(word, generator=generator).tolist()
    arcs = [
        ((number + turn) % 4, free[2 * turn], free[2 * turn + 1])
        for turn in range(min(4, word // 2))
    ]
    rows = torch.tensor(arcs, dtype=torch.long).reshape(-1, 3)
    return AlignedTree(pieces=torch.tensor([*pieces, -1]), arcs=rows)


def _corpus(lengths: list[int], seed: int) -> Corpus:
    generator = torch.Generator().manual_seed(seed)
    pairs, trees = [], []
    for number, length in enumerate(lengths):
        source = torch.randperm(VOCABULARY - 3, generator=generator)[:length] + 3
        target = torch.randperm(VOCABULARY - 3, generator=generator)[: length // 2 + 1] + 3
        pairs.append(([*source.tolist(), EOS], [*target.tolist(), EOS]))
        trees.append(_tree(length, number, generator))
    return Corpus(pairs, trees)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """Four sentences of each length of the ladder, then forty of three to twenty tokens."""
    others = torch.randint(3, 21, (40,), generator=torch.Generator().manual_seed(2)).tolist()
    return _corpus([length for length in LADDER for _ in range(4)] + others, seed=3)


@pytest.fixture(scope="session")
def ranks() -> torch.Tensor:
    """A frequency rank for every piece, in no order of its id."""
    return torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="session")
def attention():
    """attention(batch, kind, layers, heads): a recording of random softmax weights, the same for a
    sentence whatever its batch; padded keys exactly 0, rows of padding arbitrary."""

    def record(batch: Batch, kind: Kind = Kind.ENCODER, layers: int = 2, heads: int = 3) -> dict:
        queries = (batch.source if kind is Kind.ENCODER else batch.target_in).shape[1]
        keys = (batch.target_in if kind is Kind.DECODER else batch.source).shape[1]
        scores = torch.zeros(len(batch), layers, heads, queries, keys)
        for row, sentence in enumerate(batch.sentences.tolist()):
            generator = torch.Generator().manual_seed(1000 + sentence)
            drawn = torch.randn(layers, heads, 140, 140, generator=generator)
            scores[row] = 3 * drawn[..., :queries, :keys]
        real = batch.target_mask if kind is Kind.DECODER else batch.source_mask
        masked = scores.masked_fill(~real[:, None, None, None, :], -torch.inf)
        if kind is Kind.DECODER:
            ahead = torch.ones(queries, keys, dtype=torch.bool).triu(1)
            masked = masked.masked_fill(ahead, -torch.inf)
        return {(kind, Point.WEIGHTS): list(masked.softmax(-1).unbind(1))}

    return record
