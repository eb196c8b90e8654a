"""What leaving out a word, or a step of its embedding, does to a model's outputs (page 52)."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from headbook.looking.embeddings import embedding
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch
from headbook.types import UserError

WORD, VECTOR, TRANSLATION = "each word", "sentence vector", "translation"
"""Outputs: the states of words, the mean of all states, the probabilities of target tokens."""
Words = Int[np.ndarray, " word"]


def _read(model: Loaded, batch: Batch, output: str, ids: Tensor) -> Tensor:
    """Outputs [version, output, width] of the sentence with other tokens, a version per row."""
    batch = replace(batch.select(torch.zeros(len(ids), dtype=torch.long)), source=ids)
    if output == TRANSLATION:
        return model.network(batch).float().log_softmax(-1)
    states = model.encoded(batch)
    return states.mean(1, keepdim=True) if output == VECTOR else states


@torch.no_grad()
def blank_out(model: Loaded, batch: Batch, output: str, words: Words) -> Tensor:
    """1 − cosine or total variation [output, word] when a word is masked or made unknown."""
    if model.unknown is None:
        raise UserError(f"{model.name}: its tokenizer has neither a mask nor an unknown token")
    ids = batch.source.repeat(len(words), 1)
    ids[range(len(words)), words] = model.unknown
    whole, other = (_read(model, batch, output, each) for each in (batch.source, ids))
    if output == TRANSLATION:
        return (whole.exp() - other.exp()).abs().sum(-1).T / 2
    return 1 - functional.cosine_similarity(whole, other, dim=-1).T


def input_gradients(model: Loaded, batch: Batch, output: str, words: Words) -> Tensor:
    """Norm [output, word] of the derivative by a word's embedding.

    Of a state in eight random directions, of a prediction its likeliest token's log-probability.
    """
    whole = _read(model, batch, output, batch.source)[0].detach()
    along = torch.randn(8 * len(whole), whole.shape[1], generator=torch.Generator().manual_seed(0))
    if output == TRANSLATION:
        along = functional.one_hot(whole.argmax(-1), whole.shape[1]).float()
    rows = torch.arange(len(along))
    ids = batch.source.repeat(len(rows), 1)
    with embedding(model.network, ids) as given:
        total = _read(model, batch, output, ids)[rows, rows % len(whole)] * along
        (slopes,) = torch.autograd.grad(total.sum(), given)
    squares = slopes.square().sum(-1).unflatten(0, (-1, len(whole)))
    return squares.mean(0).sqrt()[:, words]
