"""The text a key is made of: one for equal values, another for different ones."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest

from headbook.runs.canonical import canonical, digest


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Config:
    colour: Colour | str = Colour.RED
    sizes: tuple[int, ...] | list[int] = (1, 2)
    rate: float = 0.1
    limit: int | None = None


def test_the_text_by_hand():
    assert canonical(Config()) == '{"colour":"red","limit":null,"rate":0.1,"sizes":[1,2]}'
    assert canonical({"ä": [True, {"b": Config}["b"](limit=3).limit]}) == '{"ä":[true,3]}'


def test_what_is_equal_has_one_text():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(Config(Colour.RED, (1, 2))) == digest(Config("red", [1, 2]))
    assert digest(Config(rate=0.1)) == digest(Config(rate=float(np.float64(0.1))))
    assert digest(Config(rate=np.float64(0.1))) == digest(Config(rate=0.1))


@pytest.mark.parametrize(
    "other",
    [
        Config(colour=Colour.BLUE),
        Config(sizes=(2, 1)),
        Config(sizes=(1, 2, 3)),
        Config(rate=0.1 + 2**-56),
        Config(limit=0),
    ],
)
def test_what_differs_has_another(other: Config):
    assert digest(other) != digest(Config())


@pytest.mark.parametrize(
    "value", [Path("here"), {1, 2}, frozenset(), b"bytes", object(), Config, np.int64(3), 1j]
)
def test_what_has_no_one_text_is_refused(value: object):
    with pytest.raises(TypeError, match="a config cannot hold"):
        canonical({"inner": [value]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_without_a_text_are_refused(value: float):
    """NaN differs from itself, so a run keyed by it could never be explained."""
    with pytest.raises(ValueError, match="JSON"):
        canonical(Config(rate=value))
