"""Calls of the package are checked, and an axis has one size within a call."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import checked
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from headbook.claims.ledger import load
from headbook.released.network import _kind


@checked.once
def joined(a: Float[Tensor, " row"], b: Float[Tensor, " row"]) -> Float[Tensor, " row"]:
    return torch.cat([a, b])[: len(a) + (a[0] > 1).int()]


@checked.once
def rows(a: Float[Tensor, " row"]) -> Iterator[int]:
    yield len(a)


@checked.once
def beside(a: Float[Tensor, " row"]) -> list[int]:
    return list(rows(torch.ones(len(a) + 1)))


@checked.once
@dataclass
class Point:
    x: float


ONES, TWOS = torch.ones(2), torch.full((2,), 2.0)


def test_a_right_call_is_not_refused() -> None:
    assert joined(ONES, ONES).shape == (2,) and Point(1.0).x == 1.0
    assert beside(ONES) == [3], "a generator's axes are its own"


@pytest.mark.parametrize(
    "call",
    {
        "another size of the same axis": lambda: joined(ONES, torch.ones(3)),
        "a result of another size": lambda: joined(TWOS, ONES),
        "a generator's argument": lambda: rows("a"),
        "a field": lambda: Point("a"),
        "a function of the package": lambda: load("claims.yml"),
        "a shape in the package": lambda: _kind(torch.ones(3)),
    }.items(),
    ids=lambda each: each[0],
)
def test_a_planted_fault_is_seen(call: tuple[str, Callable]) -> None:
    with pytest.raises((BeartypeCallHintViolation, TypeCheckError)):
        call[1]()
