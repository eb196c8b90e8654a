"""What `hb.measure` and `hb.view` say of a vision transformer's heads, from pictures."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.halves import shares
from headbook.looking.attention import attention
from headbook.looking.measured import without_intervals
from headbook.models.capture import Point, capture
from headbook.plots.svg import WIDTH, Drawing, canvas
from headbook.results import table
from headbook.types import Kind, UserError

HIGH = 3
"""A patch has a high norm if its last state is so many times as long as the median of its picture;
those that Darcet et al. (2024) found in large models are about ten times as long."""
DARK, FULL = 0.12, 0.97
"""Light on a patch that a head does not look at, and the quantile of weights with all of it."""


def seen(model: Any, pictures: Iterable[np.ndarray]) -> pd.DataFrame:
    """One row per head, means over patches that ask and over pictures, with intervals over these:

    distance: mean distance, in patches, from a patch to patches that it looks at, by weight
        (Dosovitskiy et al. 2021)
    special: weight on the class token and other special ones, which are no keys in the others
    confidence: largest weight
    high_norm: weight on patches of high norm, see `HIGH`
    """
    found = [_of_picture(model, each) for each in getattr(pictures, "sentences", pictures)]
    if not found:
        raise UserError("there is no picture to measure on")
    heads = [
        (str(kind), layer + 1, head + 1)
        for kind, layer, block in model.network.attentions()
        for head in range(block.heads)
    ]
    values = shares(torch.stack(found).numpy(), np.ones((len(found), 4)))
    names = ("distance", "special", "confidence", "high_norm")
    labels = dict(zip(("kind", "layer", "head"), map(list, zip(*heads, strict=True)), strict=True))
    columns = {name: values[..., at] for at, name in enumerate(names)}
    return without_intervals(table(labels, **columns), len(found))


@torch.inference_mode()
def _of_picture(model: Any, picture: np.ndarray) -> Float[Tensor, "head 4"]:
    rows, columns = model.grid(picture)
    with capture(model.network, {Point.WEIGHTS}) as tape:
        states = model.network(model.batch([picture]))[0]
    weights = torch.cat([layer[0] for layer in tape[Kind.ENCODER, Point.WEIGHTS]])
    first = len(states) - rows * columns
    own, norms = weights[:, first:, first:], states[first:].norm(dim=-1)
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).to(own)
    apart = (own * torch.cdist(places, places)).sum(-1) / own.sum(-1)
    special = weights[:, first:, :first].sum(-1)
    high = own[..., norms > HIGH * norms.median()].sum(-1)
    return torch.stack([apart, special, own.amax(-1), high], -1).mean(1).cpu()


def view(model: Any, pictures: Any, heads: Sequence[str] | Mapping[str, str]) -> Drawing:
    """Each picture beside itself as each head sees it, bright where the class token looks.

    `heads` are names, or names with a note on each; a head is as in `Attention`.
    """
    pictures = [pictures] if isinstance(pictures, np.ndarray) else list(pictures)
    notes = heads if isinstance(heads, Mapping) else dict.fromkeys(heads, "")
    shape = len(pictures), 1 + len(notes)
    grids = [model.grid(picture) for picture in pictures]
    heights = [rows / columns for rows, columns in grids]
    height = sum(heights) * WIDTH / shape[1] + 14 * (1 + any(notes.values()))
    figure, axes = canvas(height, *shape, gridspec_kw={"height_ratios": heights})
    for line, picture, grid in zip(axes, pictures, grids, strict=True):
        seen = attention(model, picture)
        lights = [seen[head][0, ~seen.special].reshape(grid) for head in notes]
        side = model.network.model.config.patch_size
        cut = picture[: grid[0] * side, : grid[1] * side]
        step = -(-cut.shape[1] // 260)  # a panel is no wider
        for axis, light in zip(line, [np.ones(grid), *lights], strict=True):
            light = DARK + (1 - DARK) * (light / np.quantile(light, FULL)).clip(max=1)
            bright = np.kron(light, np.ones((side, side)))
            drawn = (cut * bright[..., None]).astype("uint8")[::step, ::step]
            drawn &= 0xF8  # 32 steps of light, which nobody sees, halve the page
            axis.imshow(drawn, interpolation="none")
            axis.axis("off")
    for axis, (head, note) in zip(axes[0, 1:], notes.items(), strict=True):
        axis.set_title(f"{head}\n{note}".strip())
    return Drawing(figure, f"What the class token looks at in heads {', '.join(notes)}")
