"""Attention between words as probes read it (page 54): maps, vectors, a summary of each word."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.arcs import pieces_of, word_attention
from headbook.looking.embeddings import embedding
from headbook.looking.states import over_words
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.alignment import NO_WORD, align_all
from headbook.text.trees import Tree
from headbook.types import Kind, UserError


@dataclass(frozen=True)
class WordMaps:
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
    """Every tree's sentence, in their order; UserError for a model without an encoder."""
    aligned = [align_all(tree, model.spans(tree.text)) for tree in trees]
    found: dict[int, WordMaps] = {}
    for batch in model.batches([tree.text for tree in trees]):
        tables = embedding(model.network, batch.source)
        with capture(model.network, {Point.WEIGHTS}) as tape, tables as vectors:
            model.network(batch)
        if (Kind.ENCODER, Point.WEIGHTS) not in tape:
            raise UserError(f"{model.name} has no encoder; name a model with encoder attention")
        pieces = pieces_of(aligned, batch)
        special = torch.where(batch.source_boundary, 0, NO_WORD)  # one word of all of them
        layers = torch.stack(tape[Kind.ENCODER, Point.WEIGHTS], dim=1)
        words = word_attention(layers, pieces).flatten(1, 2)
        beside = word_attention(layers, special, pieces).flatten(1, 2)
        for row, number in enumerate(batch.sentences.tolist()):
            count = len(trees[number])
            own = words.new_zeros(words.shape[1], count, count + 1)
            seen = min(count, words.shape[-1])
            own[:, :seen, :seen] = words[row, :, :seen, :seen]
            own[:, :seen, -1] = beside[row, :, :seen, 0]
            vectors_of = over_words(vectors[0][row], pieces[row], count)
            found[number] = WordMaps(trees[number], own[..., :-1], own[..., -1], vectors_of)
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
