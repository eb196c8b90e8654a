"""The benchmark: how quick training and measuring are, as ratios within one run."""

from headbook.bench.run import report

__all__ = ["report"]
