"""Heads taken away at random: the loss of a model as more and more of them are closed."""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
import torch
from tqdm import tqdm

from headbook.models.gates import all_heads, closed
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.types import HeadId

HALF = 0.5


def without_heads(
    model: Transformer,
    nats: Callable[[], float],
    levels: Sequence[float],
    orders: int,
    name: str,
) -> Iterator[dict[str, object]]:
    """One row per order and share of heads; `nats` is the loss of the model as it then is.

    The same orders for every model of the same shape.
    """
    heads = all_heads(model)
    with tqdm(total=orders * len(levels), desc=f"without heads: {name}", unit="mask") as bar:
        for order in range(orders):
            in_order = shuffled(heads, order)
            for level in levels:
                gone = in_order[: round(level * len(heads))]
                with closed(model, gone):
                    loss = nats()
                bar.update()
                yield {"order": order, "share": level, "removed": len(gone), "of": len(heads),
                       "valid_nats": loss}  # fmt: skip


def shuffled(heads: Sequence[HeadId], order: int) -> list[HeadId]:
    """The heads in a random order, the same for the same number."""
    noise = torch.Generator().manual_seed(derived(order, "heads taken away"))
    return [heads[index] for index in torch.randperm(len(heads), generator=noise).tolist()]


def rise(removed: pd.DataFrame, share: float) -> float:
    """Rise of one model's loss without that share, mean over the orders, in nats."""
    rows = removed.pivot(index="order", columns="share", values="valid_nats")
    # Where a profile has not that share it is the next one.
    nearest = min(rows.columns, key=lambda level: abs(level - share))
    return float((rows[nearest] - rows[rows.columns.min()]).mean())
