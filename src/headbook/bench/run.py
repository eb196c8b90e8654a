"""The whole benchmark, as `headbook bench` runs it."""

from collections.abc import Sequence

import pandas as pd

from headbook.bench.config import BenchConfig
from headbook.bench.measuring import cost, memory
from headbook.bench.relevance import relevance
from headbook.bench.speed import speed
from headbook.bench.table import frame, text


def report(rounds: int = 7, widths: Sequence[int] = (128, 256)) -> pd.DataFrame:
    """The benchmark at the sizes of the book's models."""
    return bench(BenchConfig(widths=tuple(widths), rounds=rounds))


def bench(config: BenchConfig) -> pd.DataFrame:
    """Measures at every width, prints the table and returns it."""
    rows = []
    for width in config.widths:
        rows += speed(config, width)
        rows += cost(config, width)
        rows += relevance(config, width)
        rows += memory(config, width)
    table = frame(rows)
    print(text(table), flush=True)
    return table
