"""Attention between words as probes read it (page 54): maps, vectors, a summary of each word."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.arcs import pieces_of, word_attention
from headbook.looking.embeddings import embedding
from headbook.looking.states import over_words
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.alignment import align_all
from headbook.text.trees import Tree
from headbook.types import Kind


class WordMaps(NamedTuple):
    """One sentence through a model's encoder heads, all layers one after the other.

    `weights` sum over a key's pieces and are the mean over a query's (Clark et al. 2019, section
    4.1); `special` is the weight on special tokens; `vectors` are the embeddings below the first
    layer without positions, the mean over the pieces. A word without a piece has zeros.
    """

    tree: Tree
    weights: Float[Tensor, "head word word"]
    special: Float[Tensor, "head word"]
    vectors: Float[Tensor, "word model"]


@torch.inference_mode()
def word_maps(model: Loaded, trees: Sequence[Tree]) -> list[WordMaps]:
    """Every tree's sentence, in their order; the model has an encoder."""
    aligned = [align_all(tree, model.spans(tree.text)) for tree in trees]
    found: dict[int, WordMaps] = {}
    for batch in model.batches([tree.text for tree in trees]):
        tables = embedding(model.network, batch.source)
        with capture(model.network, {Point.WEIGHTS}) as tape, tables as vectors:
            model.network(batch)
        pieces, rows = pieces_of(aligned, batch), batch.sentences.tolist()
        last = max(len(trees[number]) for number in rows)  # one word of all special tokens
        layers = torch.stack(tape[Kind.ENCODER, Point.WEIGHTS], dim=1)
        words = word_attention(layers, pieces.masked_fill(batch.source_boundary, last))
        for row, number in enumerate(rows):
            count = len(trees[number])
            own = words[row].flatten(0, 1)[:, :count]
            means = over_words(vectors[0][row], pieces[row], count)
            found[number] = WordMaps(trees[number], own[..., :count], own[..., last], means)
    return [found[number] for number in range(len(trees))]


def word_features(
    weights: Float[Tensor, "head word word"], special: Float[Tensor, "head word"]
) -> Float[Tensor, "word feature"]:
    """Seven numbers per head and word: the word's weight on itself, on the word before and after
    (0 at an end), on special tokens, its largest weight on another word, the entropy of its weights
    in nats, and the sum of the weights on it from other words."""
    own = weights.diagonal(dim1=-2, dim2=-1)
    others = weights - torch.diag_embed(own)
    edge = weights.new_zeros(len(weights), 1)
    before = torch.cat([edge, weights.diagonal(-1, -2, -1)], dim=1)
    after = torch.cat([weights.diagonal(1, -2, -1), edge], dim=1)
    entropy = torch.special.entr(weights).sum(-1) + torch.special.entr(special)
    found = [own, before, after, special, others.amax(-1), entropy, others.sum(-2)]
    return torch.cat(found).T
