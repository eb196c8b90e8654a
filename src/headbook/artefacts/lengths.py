"""The stage `lengths`: time and memory of sublayers by the length of the text."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from headbook.bench.rounds import interleaved
from headbook.models.attention import Attention, AttentionPath
from headbook.models.fewer_keys import Windowed
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.peak_bytes import peak_bytes
from headbook.runs.store import Ingredients, Stage, Store
from headbook.runs.timing import processor_seconds
from headbook.types import UserError

LENGTHS = Stage("lengths", version=1)
SHORTEST, LONGEST = 128, 8192
WIDTH, HEADS, FEED_FORWARD = 128, 2, 512
FORWARD, BACK = "forward", "there and back"
MASKED, FEEDING = "window, masked", "feed-forward"
"""A window that is cut out of a full matrix, as a control; and the other sublayer of a layer."""
ENOUGH = 1024
"""A measurement of time repeats its work until it has read so many tokens."""


@dataclass(frozen=True)
class LengthRun:
    """Rounds in which all sublayers take turns, and the longest of the lengths."""

    rounds: int = 5
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UserError(f"{self.rounds} rounds of timing: give 1 or more")


def lengths(longest: int) -> list[int]:
    """Powers of two from SHORTEST on; UserError where the longest is shorter."""
    if longest < SHORTEST:
        raise UserError(f"the longest text has {longest} tokens: give {SHORTEST} or more")
    return [2**power for power in range(SHORTEST.bit_length() - 1, longest.bit_length())]


def timed(run: LengthRun, store: Store) -> pd.DataFrame:
    """Seconds by kind, length, direction and round; from the store or measured now."""
    asked = Ingredients(LENGTHS, run, {}, {"device": "cpu"})
    folder = store.get(asked, lambda aside: _write(run, aside))
    return pd.read_csv(folder / "times.csv")


def _write(run: LengthRun, folder: Path) -> None:
    pd.DataFrame(times(run)).to_csv(folder / "times.csv", index=False)


def sublayer(kind: str, length: int) -> Callable[[Tensor], Tensor]:
    """One sublayer for texts of this length, as a function of the states."""
    torch.manual_seed(0)
    if kind == FEEDING:
        inner, outer = nn.Linear(WIDTH, FEED_FORWARD), nn.Linear(FEED_FORWARD, WIDTH)
        return nn.Sequential(inner, nn.ReLU(), outer)
    plain, sizes = Attention(WIDTH, HEADS, 0.0, AttentionPath.EXPLICIT), Sizes(length)
    masked = kind == MASKED
    block = Windowed(plain, sizes.window + 1) if masked else mix(Mixing(kind), plain, sizes)
    return lambda states: block(states, states)


def _works(kind: str, length: int) -> dict[str, Callable[[], object]]:
    block = sublayer(kind, length)
    given = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(0))
    states = given.requires_grad_()

    @torch.no_grad()
    def forward() -> None:
        block(states)

    def back() -> None:
        block(states).sum().backward()

    return {FORWARD: forward, BACK: back}


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def times(run: LengthRun) -> Iterator[dict[str, object]]:
    """Processor seconds on one thread, all kinds and lengths in turns."""
    works = {}
    for length in lengths(run.longest):
        for kind in (*Mixing, FEEDING):
            for direction, work in _works(kind, length).items():
                works[str(kind), length, direction] = work
    with _one_thread():
        repeated = {each: partial(_seconds, work, max(1, ENOUGH // each[1]))
                    for each, work in works.items()}  # fmt: skip
        taken = interleaved(repeated, run.rounds, "timing")
    for (kind, length, direction), found in taken.items():
        for number, each in enumerate(found, 1):
            yield {"kind": kind, "length": length, "direction": direction, "round": number,
                   "seconds": each}  # fmt: skip


def _seconds(work: Callable[[], object], repeats: int, _: int) -> float:
    return processor_seconds(lambda: [work() for _ in range(repeats)]) / repeats


def memory(longest: int) -> Iterator[dict[str, object]]:
    """Most bytes held at once beyond states and parameters, by kind, length and direction."""
    with _one_thread():
        for length in lengths(longest):
            for kind in (*Mixing, MASKED, FEEDING):
                for direction, work in _works(kind, length).items():
                    work()  # gradients are there from now on
                    yield {"kind": str(kind), "length": length, "direction": direction,
                           "bytes": peak_bytes(work)}  # fmt: skip
