"""Words as a loaded model has them: attention between words, their vectors, and their states."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.arcs import NO_WORD, pieces_of, word_attention
from headbook.looking.embeddings import embedding
from headbook.looking.sublayers import encoder
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.alignment import align_all
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


def word_states(model: Loaded, trees: Sequence[Tree]) -> list[Float[Tensor, "_ _ _"]]:
    """States [layer word model] of each tree, the mean over a word's pieces; layer 0 is the
    embedding with its position. UserError where the layers cannot be taken apart."""
    found = token_states(model, [tree.text for tree in trees])
    return [
        torch.stack([over_words(layer, align_all(tree, model.spans(tree.text)).pieces, len(tree))
                     for layer in states])
        for tree, (states, _) in zip(trees, found, strict=True)
    ]  # fmt: skip


def sentence_states(model: Loaded, sentences: Sequence[str]) -> Float[Tensor, "sentence layer _"]:
    """Mean state of the tokens of every sentence, special ones left out; errors as above."""
    found = token_states(model, sentences)
    return torch.stack([states[:, of_text].mean(1) for states, of_text in found])


@torch.no_grad()
def token_states(
    model: Loaded, sentences: Sequence[str]
) -> list[tuple[Float[Tensor, "_ _ _"], Bool[Tensor, " _"]]]:
    """States [layer token model] of each sentence, and which tokens are no special ones; errors as
    above."""
    layers = encoder(model)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, sentence in enumerate(sentences):
        by_length[len(model.pieces(sentence))].append(number)
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for numbers in by_length.values():
        for batch in model.batches([sentences[number] for number in numbers]):
            states = torch.stack(layers.states(batch), dim=1)
            of_text = batch.source_mask & ~batch.source_boundary
            for row, place in enumerate(batch.sentences.tolist()):
                found[numbers[place]] = states[row], of_text[row]
    return [found[number] for number in range(len(sentences))]


def over_words(
    values: Float[Tensor, "piece model"], pieces: Int[Tensor, " piece"], count: int
) -> Float[Tensor, "word model"]:
    """Mean over the pieces of each of `count` words; 0 for a word without a piece."""
    inside = pieces != NO_WORD
    sums = values.new_zeros(count, values.shape[-1])
    sums.index_add_(0, pieces[inside], values[: len(pieces)][inside])
    return sums / torch.bincount(pieces[inside], minlength=count).clamp(min=1)[:, None]
