"""Heads written by hand, whose asymmetry is known exactly."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.symmetry import Part, asymmetry, part_of
from headbook.released.student import position_waves

TOKENS = 24
WIDTH = 64
DRAWS = 200
"""Matrices of unrelated entries whose mean share is reported."""


def constructions() -> Iterator[dict[str, object]]:
    """Scores written by hand: antisymmetric share known and measured, and where queries point."""
    for name, scores, known in _scores():
        share = float(asymmetry(scores).mean())
        row: dict[str, object] = {"head": name, "known": known, "measured": share}
        one = scores if scores.ndim == 2 else scores[0]
        for column, matrix in (
            ("previous", one),
            ("previous_symmetric", part_of(one, Part.SYMMETRIC)),
        ):
            row[column] = _previous(matrix)
        yield row


def _scores() -> Iterator[tuple[str, Float[Tensor, "*draw token token"], float]]:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    project = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
    queries = states @ project
    yield "queries are keys", queries @ queries.mT, 0.0
    turned = torch.cat([-queries[:, WIDTH // 2 :], queries[:, : WIDTH // 2]], dim=1)
    yield "keys are queries turned by a right angle", queries @ turned.mT, 1.0
    drawn = torch.randn(DRAWS, TOKENS, TOKENS, generator=generator, dtype=torch.float64)
    yield f"unrelated entries, mean of {DRAWS}", drawn, (TOKENS - 1) / (2 * TOKENS)
    at = torch.arange(TOKENS + 1, dtype=torch.float64)
    waves = position_waves(at, WIDTH)
    # The key of token k is the wave of position k + 1, a fixed rotation of its own.
    yield "previous token, from position waves", waves[:-1] @ waves[1:].mT, _previous_known()


def _previous_known() -> float:
    """Share of S(p, k) = Σ cos ω(p − k − 1), over all cells one by one.

    Of each wave cos ω cos ω(p − k) is even in p − k, and sin ω sin ω(p − k) odd.
    """
    half = WIDTH // 2
    rates = torch.exp(
        -torch.arange(half, dtype=torch.float64) * torch.log(torch.tensor(10_000.0)) / (half - 1)
    )
    even = odd = 0.0
    for distance in range(1 - TOKENS, TOKENS):
        pairs = TOKENS - abs(distance)
        even += pairs * float((rates.cos() * (rates * distance).cos()).sum()) ** 2
        odd += pairs * float((rates.sin() * (rates * distance).sin()).sum()) ** 2
    return odd / (even + odd)


def _previous(scores: Float[Tensor, "token token"]) -> float:
    """Share of tokens but the first whose largest score is the previous token's."""
    return float((scores[1:].argmax(1) == torch.arange(TOKENS - 1)).double().mean())


def cells(axes: Sequence[str], numbers: Mapping[str, Tensor]) -> pd.DataFrame:
    """One row per cell of tensors of one shape, its place counted from one."""
    shape = next(iter(numbers.values())).shape
    places = 1 + torch.cartesian_prod(*map(torch.arange, shape)).T
    values = {name: each.flatten().tolist() for name, each in numbers.items()}
    return pd.DataFrame({**dict(zip(axes, places.tolist(), strict=True)), **values})
