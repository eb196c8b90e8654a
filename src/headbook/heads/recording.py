"""The recording of a forward pass over one batch, and results that several measures share."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from headbook.models.capture import Point
from headbook.types import Kind

Result = TypeVar("Result")


@runtime_checkable
class Recording(Protocol):
    """Input of a measure: `recording[kind, point]` is one tensor per layer, never changed here."""

    def __getitem__(self, key: tuple[Kind, Point], /) -> list[Tensor]: ...


class Shared:
    """The recording of one batch, keeping what one measure made of it for the next one."""

    def __init__(self, tape: Recording) -> None:
        self._tape = tape
        self._made: dict[Hashable, object] = {}

    def __getitem__(self, key: tuple[Kind, Point], /) -> list[Any]:
        return self._tape[key]

    def __contains__(self, key: tuple[Kind, Point]) -> bool:
        return key in self._tape

    def once(self, key: Hashable, make: Callable[[], Result]) -> Result:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def once(tape: Recording, key: Hashable, make: Callable[[], Result]) -> Result:
    """`make()`, made only once for a shared tape; `key` holds all it depends on but the batch."""
    return tape.once(key, make) if isinstance(tape, Shared) else make()
