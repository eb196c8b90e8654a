"""The whole benchmark, as `headbook bench` runs it."""

from typing import Any

import pandas as pd

from headbook.bench.config import BenchConfig
from headbook.bench.contestants import device
from headbook.bench.measuring import cost, memory
from headbook.bench.relevance import relevance
from headbook.bench.shares import shares
from headbook.bench.speed import speed
from headbook.bench.table import frame, text

ON_GPU: dict[str, Any] = {
    "widths": (256, 512),
    "tokens": 16_000,
    "vocabulary": 32_000,
    "product": 8192,
}
"""Sizes of profile `full`, and products that a GPU needs to reach its rate."""


def report(rounds: int = 7) -> pd.DataFrame:
    """The benchmark at the sizes of the book's models: of `laptop`, or of `full` on a GPU."""
    sizes = ON_GPU if device().type == "cuda" else {}
    return bench(BenchConfig(rounds=rounds, **sizes))


def bench(config: BenchConfig) -> pd.DataFrame:
    """Measures at every width, prints the table and returns it."""
    rows = []
    for width in config.widths:
        rows += speed(config, width)
        rows += shares(config, width)
        rows += cost(config, width)
        rows += relevance(config, width)
        rows += memory(config, width)
    table = frame(rows)
    print(text(table), flush=True)
    return table
