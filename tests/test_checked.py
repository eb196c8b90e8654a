"""Calls of the package are checked, and an axis has one size within a call."""

from collections.abc import Callable, Iterator

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


ONES = torch.ones(2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: joined(ONES, torch.ones(3)),
        lambda: joined(2 * ONES, ONES),
        lambda: load("claims.yml"),
        lambda: _kind(torch.ones(3)),
    ],
    ids=["another size", "a result of another size", "a type", "a shape in the package"],
)
def test_a_planted_fault_is_seen(call: Callable) -> None:
    assert joined(ONES, ONES).shape == (2,)
    assert beside(ONES) == [3], "a generator's axes are its own"
    with pytest.raises((BeartypeCallHintViolation, TypeCheckError)):
        call()
