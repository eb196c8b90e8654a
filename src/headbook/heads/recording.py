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
    """The recording of one batch, keeping what one measure made of it for the next one.

    `common` holds what depends on the batch alone; recordings of its layers may share it.
    """

    def __init__(self, tape: Recording, common: dict[Hashable, object] | None = None) -> None:
        self._tape = tape
        self._made: dict[Hashable, object] = {}
        self._common = {} if common is None else common

    def __getitem__(self, key: tuple[Kind, Point], /) -> list[Any]:
        return self._tape[key]

    def __contains__(self, key: tuple[Kind, Point]) -> bool:
        return key in self._tape

    def once(self, key: Hashable, make: Callable[[], Result], batch: bool = False) -> Result:
        made = self._common if batch else self._made
        if key not in made:
            made[key] = make()
        return made[key]


def once(tape: Recording, key: Hashable, make: Callable[[], Result], batch: bool = False) -> Result:
    """`make()`, made only once for a shared tape; `key` holds all it depends on but the batch.

    With `batch` it depends on no recording.
    """
    return tape.once(key, make, batch) if isinstance(tape, Shared) else make()
