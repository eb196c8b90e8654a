"""The planted model, for the studies that prune it."""

from planted import planted

__all__ = ["planted"]
