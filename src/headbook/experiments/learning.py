"""One update of a small model that is no translator, for the trainings of these experiments."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler


def descent(
    parameters: Iterable,
    schedule: Callable[[torch.optim.Optimizer], lr_scheduler.LRScheduler] | None = None,
    clip: float | None = None,
    **adam: object,
) -> Callable[[Tensor], float]:
    """Adam as a function of the loss: it makes the update and gives the loss as a number.

    `parameters` may be groups, `schedule` makes the rates that follow, `clip` is the longest
    gradient. Where the loss is no number nothing is updated.
    """
    optimiser = torch.optim.Adam(parameters, **{"fused": True, **adam})
    rate = schedule(optimiser) if schedule else None
    weights = [each for group in optimiser.param_groups for each in group["params"]]

    def update(loss: Tensor) -> float:
        optimiser.zero_grad()
        loss.backward()
        if math.isfinite(found := float(loss.detach())):
            if clip:
                nn.utils.clip_grad_norm_(weights, clip)
            optimiser.step()
            if rate:
                rate.step()
        return found

    return update


def rise_and_fall(updates: int, warm: int) -> Callable[..., lr_scheduler.LRScheduler]:
    """The rate goes up along a line over `warm` updates, then down to zero."""
    left = max(1, updates - warm)
    return lambda adam: lr_scheduler.LambdaLR(
        adam, lambda step: min((step + 1) / warm, (updates - step) / left)
    )
