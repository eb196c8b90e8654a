"""The attention map of one head in one sentence."""

import matplotlib
import numpy as np
import torch

from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.plots.palette import SEQUENCE
from headbook.plots.svg import STYLE, Drawing, canvas
from headbook.types import Kind, UserError

LONGEST = 40
"""Tokens that still can be read."""


def attention(model: Loaded, sentence: str, layer: int = 1, head: int = 1) -> Drawing:
    """Weights of one head as a map: a row per query, a column per key, special tokens included.

    Of encoder self-attention, or of a decoder that has no encoder; layer and head count from one.
    UserError for a head that the model lacks and a sentence of more than 40 tokens.
    """
    pieces = [piece.replace("▁", " ").strip() or "▁" for piece in model.pieces(sentence)]
    if len(pieces) > LONGEST:
        raise UserError(f"the sentence has {len(pieces)} tokens; {LONGEST} can be drawn")
    weights = sentence_weights(model, sentence)
    if not (1 <= layer <= len(weights) and 1 <= head <= weights[layer - 1].shape[0]):
        raise UserError(f"{model.name} has no layer {layer} head {head}; both count from 1")
    shown = weights[layer - 1][head - 1]
    with matplotlib.rc_context(STYLE):
        figure, grid = canvas(90 + 17 * len(pieces))
        axis = grid[0, 0]
        drawn = axis.pcolormesh(shown, cmap=SEQUENCE, vmin=0, vmax=1)
        places = np.arange(len(pieces)) + 0.5
        axis.set_xticks(places, pieces, rotation=90)
        axis.set_yticks(places, pieces)
        axis.invert_yaxis()
        axis.tick_params(length=0)
        axis.set(xlabel="key", ylabel="query")
        figure.colorbar(drawn, ax=axis, label="weight")
    return Drawing(figure, f"Attention of layer {layer} head {head} in: {sentence}")


@torch.inference_mode()
def sentence_weights(model: Loaded, sentence: str) -> list[np.ndarray]:
    """[head query key] of every layer, of the first kind of attention that the model has."""
    (batch,) = model.batches([sentence])
    kind: Kind = next(model.network.attentions())[0]
    with capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch.to(next(model.network.parameters()).device))
    return [layer[0].float().cpu().numpy() for layer in tape[kind, Point.WEIGHTS]]
