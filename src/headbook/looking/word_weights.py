"""Attention between two stretches of a sentence, by their characters."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from headbook.models.loaded import Span
from headbook.types import UserError


def tokens_of(spans: Sequence[Span | None], part: Span) -> list[int]:
    """Places of the tokens that share a character with this part; UserError where none does."""
    found = [at for at, span in enumerate(spans)
             if span is not None and span[0] < part[1] and part[0] < span[1]]  # fmt: skip
    if not found:
        raise UserError(f"no token stands at characters {part[0]} to {part[1]}")
    return found


def between(
    weights: Float[np.ndarray, "*head query key"], queries: Sequence[int], keys: Sequence[int]
) -> Float[np.ndarray, "*head"]:
    """Mean over the query's tokens of the sum over the key's (Clark et al. 2019, section 4.1)."""
    return weights[..., list(queries), :][..., list(keys)].sum(-1).mean(-1)
