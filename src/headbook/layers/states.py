"""Representations of tokens: the residual stream below the first layer and above every layer; and
sampled occurrences of tokens, as many of each."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headbook.models.transformer import Transformer
from headbook.text.batches import PAD, UNK, Batch, in_order

BATCH_TOKENS = 4096


def flat(sentences: Sequence[Sequence[int]]) -> Int[Tensor, " token"]:
    """The ids of all sentences one after the other, each without its EOS."""
    return torch.tensor([identity for row in sentences for identity in row[:-1]], dtype=torch.long)


def frequent(tokens: Int[Tensor, " token"], count: int) -> Int[Tensor, " kind"]:
    """The most frequent ids of a text, the most frequent first; the reserved ids are none."""
    counts = torch.bincount(tokens, minlength=UNK + 2)
    counts[: UNK + 1] = 0
    order = counts.argsort(descending=True, stable=True)
    return order[: min(count, int((counts > 0).sum()))]


def occurrences(
    tokens: Int[Tensor, " token"],
    among: Int[Tensor, " kind"],
    most: int,
    seed: int,
    allowed: Bool[Tensor, " token"],
) -> Int[Tensor, " chosen"]:
    """Allowed places of these tokens in a text: at most so many of each, drawn by the seed."""
    places = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))
    places = places[(torch.isin(tokens, among) & allowed)[places]]
    kinds, order = tokens[places].sort(stable=True)
    rank = torch.arange(len(kinds)) - torch.searchsorted(kinds, kinds)
    return places[order][rank < most].sort().values


@torch.inference_mode()
def token_states(
    model: Transformer, sentences: Sequence[Sequence[int]], places: Int[Tensor, " token"]
) -> Float[Tensor, "layer token model"]:
    """The states of the tokens at these places of `flat(sentences)`.

    Index 0 is the embedding with its position, index l the residual stream behind layer l, without
    the norm that comes after the last layer. They are those of the encoder; of the decoder where
    there is none, at the position whose input is the token. In evaluation mode.
    """
    once, back = places.unique(return_inverse=True)
    lengths = [len(row) - 1 for row in sentences]
    wanted = torch.isin(torch.arange(sum(lengths)), once).split(lengths)
    numbers = torch.arange(sum(lengths)).split(lengths)
    asked = [at for at, own in enumerate(wanted) if own.any()]
    pairs = [(sentences[at], sentences[at]) for at in asked]
    found, order = [], []
    model.eval()
    for batch in in_order(pairs, BATCH_TOKENS):
        place = pad_sequence([numbers[asked[row]] for row in batch.sentences.tolist()], True, -1)
        here = torch.isin(place, once)
        found.append(_stream(model, batch)[:, :, :-1][:, here])
        order.append(place[here])
    return torch.cat(found, 1)[:, torch.cat(order).argsort()[back]]


def _stream(model: Transformer, batch: Batch) -> Float[Tensor, "layer batch token model"]:
    """The residual stream at the positions of `batch.source`."""
    layers = model.encoder if len(model.encoder) else model.decoder
    seen: list[Tensor] = []
    hooks = [
        layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0])),
        *(layer.register_forward_hook(lambda *given: seen.append(given[2])) for layer in layers),
    ]
    if layers is model.encoder:
        model.encode(batch.source)
    else:  # behind the start, position n + 1 reads token n
        start = torch.full_like(batch.source[:, :1], PAD)
        model.decode(torch.cat([start, batch.source], dim=1), None, None)
        seen = [each[:, 1:] for each in seen]
    for hook in hooks:
        hook.remove()
    return torch.stack(seen)
