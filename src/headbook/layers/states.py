"""Representations of tokens: the residual stream below the first layer and above every layer."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, PAD, Batch, in_order

States = Float[Tensor, "layer token model"]
BATCH_TOKENS = 4096


def flat(sentences: Sequence[Sequence[int]]) -> Int[Tensor, " token"]:
    """The ids of all sentences one after the other, each without its EOS."""
    return torch.tensor([identity for row in sentences for identity in row[:-1]], dtype=torch.long)


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
    slots = torch.full((len(flat(sentences)),), -1)
    slots[once] = torch.arange(len(once))
    starts = torch.tensor([0, *(len(row) - 1 for row in sentences)]).cumsum(0)
    asked = [n for n in range(len(sentences)) if (slots[starts[n] : starts[n + 1]] >= 0).any()]
    layers = max(len(model.encoder), len(model.decoder)) + 1
    found = torch.empty(layers, len(once), model.config.width)
    pairs = [(sentences[n], sentences[n]) for n in asked]
    device = next(model.parameters()).device
    model.eval()
    with tqdm(total=len(asked), desc="states", unit="sentence", delay=2, leave=False) as bar:
        for batch in in_order(pairs, BATCH_TOKENS):
            own = starts[torch.tensor(asked)[batch.sentences]]
            slot = _slots(slots, own, batch)
            states = _stream(model, batch.to(device)).cpu()
            found[:, slot[slot >= 0]] = states[:, slot >= 0]
            bar.update(len(batch))
    return found[:, back]


def _slots(
    slots: Int[Tensor, " all"], starts: Int[Tensor, " batch"], batch: Batch
) -> Int[Tensor, "batch token"]:
    """Row for each token's state; -1 for tokens not requested, EOS and padding."""
    inner = batch.source_mask & (batch.source != EOS)
    places = starts[:, None] + torch.arange(batch.source.shape[1])
    return slots[places.where(inner, torch.tensor(0))].where(inner, torch.tensor(-1))


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
