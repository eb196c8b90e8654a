"""Random tokens repeated: how much a head looks at the earlier copy of a token, and behind it.

Prefix matching of Olsson et al. 2022, "In-context learning and induction heads": on a sequence of
random tokens that is repeated, the weight from a token to the one behind its earlier copy. Nothing
but the copy tells what comes next there. A duplicate-token head looks at the copy itself.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from headbook.heads.recording import Recording
from headbook.heads.scores import Score
from headbook.heads.tokens import by_layer
from headbook.text.batches import Batch
from headbook.types import Kind

LENGTH = 25
"""Random tokens before they are repeated, as in Olsson et al. 2022."""
DRAWS = 16
"""Sequences; intervals are over them."""
DUPLICATE, INDUCTION = 0, 1
"""Cells of `copies`."""
REPEATS, SHUFFLED, COPYING = "repeats", "repeats_shuffled", "copying"
"""Names of their sums: of `copies` with the second half as the first and shuffled, and of what a
head does to the logit of the token that it looks at."""


def repeated(
    vocabulary: Sequence[int],
    start: Sequence[int] = (),
    length: int = LENGTH,
    draws: int = DRAWS,
    shuffled: bool = False,
    halves: int = 2,
) -> Batch:
    """Sequences of `start`, then `length` tokens without repetition, then the same once more.

    What a decoder reads, as `Batch.target_in`; `start` is special. `shuffled`, the second half is
    in another order: a head that looks back so many places whatever stands there gives these places
    as much weight. With one of the `halves` they are not repeated.
    """
    rows, ids = [], torch.tensor(vocabulary)
    for draw in range(draws):
        generator = torch.Generator().manual_seed(draw)
        tokens = ids[torch.randperm(len(ids), generator=generator)[:length]]
        order = torch.randperm(length, generator=generator) if shuffled else slice(None)
        parts = [torch.tensor(start, dtype=torch.long), tokens, tokens[order]]
        rows.append(torch.cat(parts[: 1 + halves]))
    return reading(torch.stack(rows), len(start))


def reading(read: Int[Tensor, "text token"], special: int = 0) -> Batch:
    """Texts of equal length as a decoder reads them; so many tokens at the start are special."""
    real, none = torch.ones_like(read, dtype=torch.bool), read[:, :0]
    start = real & (torch.arange(read.shape[1]) < special)
    return Batch(
        source=none,
        target_in=read,
        target_out=read.roll(-1, 1),
        sentences=torch.arange(len(read)),
        source_real=none.bool(),
        source_special=none.bool(),
        target_real=real,
        input_special=start,
        output_special=start.roll(-1, 1),
    )


def copies(tape: Recording, batch: Batch, start: int, kind: Kind = Kind.DECODER) -> Score:
    """Mean weight from the second half's tokens on their earlier copy, and on the token behind it,
    [layer, head, 2]; `start` tokens stand before the first half, see `repeated`."""
    length = (batch.target_in.shape[1] - start) // 2

    def sums(weights: Tensor) -> Tensor:
        """Query i of the second half has its copy at i - length, and the next one behind it."""
        places = [weights.diagonal(at - length, -2, -1)[..., start + at :].sum(-1) for at in (0, 1)]
        return torch.stack(places, dim=-1)

    found = by_layer(tape, kind, sums).double()
    return found, torch.full_like(found[:, :1, :1], length)
