"""States of a loaded model's encoder at words, sentences and tokens."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.looking.sublayers import encoder
from headbook.models.loaded import Loaded, there
from headbook.text.alignment import NO_WORD, align_all
from headbook.text.trees import Tree


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
            states = torch.stack(layers.states(there(model.network, batch)), dim=1).cpu()
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
