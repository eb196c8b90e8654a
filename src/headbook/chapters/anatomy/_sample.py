"""The sample of gold trees as a text that can be counted in full: pieces, ids, ranks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headbook import paths
from headbook.chapters.anatomy._expected import Sentence
from headbook.corpora.batches import EOS, UNK, Batch, in_order
from headbook.syntax.alignment import AlignedTree, align
from headbook.syntax.treebank import read_conllu
from headbook.trees import RELATIONS, Tree

SAMPLE = paths.DATA / "sample" / "ewt-test-500.conllu"
LONG = 6
"""Words of more letters are cut into two pieces, so that pieces are merged as with a real model."""
BATCH_TOKENS = 4096
FIRST = max(EOS, UNK) + 1
"""The id of the most frequent piece; those below are reserved."""


@dataclass(frozen=True)
class Text:
    """The sample's trees twice: for the measures, and as lists for the counts beside them."""

    trees: tuple[AlignedTree, ...]
    batches: tuple[Batch, ...]
    ranks: Int[Tensor, " vocabulary"]
    sentences: tuple[Sentence, ...]


def sample(count: int) -> Text:
    """The first `count` trees of the sample in pieces, whose ids go by their frequency."""
    trees = read_conllu(SAMPLE)[:count]
    spans = [list(_pieces(tree)) for tree in trees]
    forms = [[tree.text[start:end].lower() for start, end in each]
             for tree, each in zip(trees, spans, strict=True)]  # fmt: skip
    rank = {
        form: number
        for number, (form, _) in enumerate(Counter(f for each in forms for f in each).most_common())
    }
    aligned = tuple(align(tree, each) for tree, each in zip(trees, spans, strict=True))
    tokens = [[rank[form] for form in each] for each in forms]
    pairs = [([FIRST + number for number in each] + [EOS], [EOS]) for each in tokens]
    return Text(
        trees=aligned,
        batches=tuple(in_order(pairs, BATCH_TOKENS)),
        ranks=torch.arange(len(rank) + FIRST) - FIRST,
        sentences=tuple(_sentence(*each) for each in zip(trees, aligned, tokens, strict=True)),
    )


def _pieces(tree: Tree) -> Iterator[tuple[int, int]]:
    """Characters of every piece: words, long ones in two halves."""
    for start, end in tree.words:
        middle = start + (end - start + 1) // 2 if end - start > LONG else end
        yield from (span for span in ((start, middle), (middle, end)) if span[0] < span[1])


def _sentence(tree: Tree, aligned: AlignedTree, tokens: Sequence[int]) -> Sentence:
    words = aligned.pieces[:-1].tolist()
    arcs = tuple(
        (arc.relation, arc.dependent, arc.head)
        for arc in tree.arcs()
        if arc.relation in RELATIONS and {arc.dependent, arc.head} <= set(words)
    )
    return Sentence(tuple(tokens), tuple(words), arcs)
