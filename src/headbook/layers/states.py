"""Representations of tokens: the residual stream below the first layer and above every layer; and
sampled occurrences of tokens, as many of each."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.models.transformer import Transformer
from headbook.text.batches import PAD, UNK, Batch, in_order

States = Float[Tensor, "layer token model"]
BATCH_TOKENS = 4096


def flat(sentences: Sequence[Sequence[int]]) -> Int[Tensor, " token"]:
    """The ids of all sentences one after the other, each without its EOS."""
    return torch.tensor([identity for row in sentences for identity in row[:-1]], dtype=torch.long)


def frequent(tokens: Int[Tensor, " token"], count: int) -> Int[Tensor, " kind"]:
    """The `count` most frequent ids of a text, the most frequent first; the reserved ids are none.

    Fewer where the text has fewer kinds of tokens.
    """
    counts = torch.bincount(tokens, minlength=UNK + 2)
    counts[: UNK + 1] = 0
    order = counts.argsort(descending=True, stable=True)
    return order[: min(count, int((counts > 0).sum()))]


def occurrences(
    tokens: Int[Tensor, " token"],
    among: Int[Tensor, " kind"],
    most: int,
    seed: int,
    allowed: Bool[Tensor, " token"] | None = None,
) -> Int[Tensor, " chosen"]:
    """Places of these tokens in a text, in order: at most so many of each, drawn by the seed.

    Only places that are `allowed`; all where None.
    """
    generator = torch.Generator().manual_seed(seed)
    places = torch.randperm(len(tokens), generator=generator)
    usable = torch.isin(tokens[places], among)
    if allowed is not None:
        usable &= allowed[places]
    places = places[usable]
    order = tokens[places].argsort(stable=True)
    kinds = tokens[places][order].contiguous()
    rank = torch.arange(len(kinds)) - torch.searchsorted(kinds, kinds)
    return places[order][rank < most].sort().values


@torch.inference_mode()
def token_states(
    model: Transformer, sentences: Sequence[Sequence[int]], places: Int[Tensor, " token"]
) -> States:
    """The states [layers + 1, token, model] of the tokens at these places of `flat(sentences)`.

    Index 0 is the embedding with its position, index l the residual stream behind layer l, without
    the norm that comes after the last layer. They are those of the encoder; of the decoder where
    there is none, at the position whose input is the token. In evaluation mode, on the model's
    device, given back on the processor.
    """
    once, back = places.unique(return_inverse=True)
    ends = torch.tensor([len(row) - 1 for row in sentences]).cumsum(0)
    owner = torch.searchsorted(ends, once, right=True)  # the sentence of each place
    at = once - torch.cat([ends.new_zeros(1), ends])[owner]
    asked, owner = owner.unique(return_inverse=True)
    layers = max(len(model.encoder), len(model.decoder)) + 1
    found = torch.empty(layers, len(once), model.config.width)
    pairs = [(sentences[n], sentences[n]) for n in asked.tolist()]
    device = next(model.parameters()).device
    model.eval()
    with tqdm(total=len(asked), desc="states", unit="sentence", delay=2, leave=False) as bar:
        for batch in in_order(pairs, BATCH_TOKENS):
            rows = torch.full((len(asked),), -1)
            rows[batch.sentences] = torch.arange(len(batch))
            here = (rows[owner] >= 0).nonzero()[:, 0]
            states = _stream(model, batch.to(device)).cpu()
            found[:, here] = states[:, rows[owner[here]], at[here]]
            bar.update(len(batch))
    return found[:, back]


def _stream(model: Transformer, batch: Batch) -> Float[Tensor, "layer batch token model"]:
    """The residual stream at the positions of `batch.source`."""
    layers = model.encoder if len(model.encoder) else model.decoder
    seen: list[Tensor] = []
    hooks = [
        layers[0].register_forward_pre_hook(lambda _, given: seen.append(given[0])),
        *(layer.register_forward_hook(lambda *given: seen.append(given[2])) for layer in layers),
    ]
    try:
        if layers is model.encoder:
            model.encode(batch.source)
            return torch.stack(seen)
        start = torch.full_like(batch.source[:, :1], PAD)
        model.decode(torch.cat([start, batch.source], dim=1), None, None)
        return torch.stack(seen)[:, :, 1:]  # behind the start, position n + 1 reads token n
    finally:
        for hook in hooks:
            hook.remove()
