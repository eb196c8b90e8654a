"""The text a key is made of: one for equal values, another for different ones."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pytest

from headbook.runs.canonical import canonical, digest
from headbook.runs.seeds import derived


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
    assert canonical({"ä": [True, None]}) == '{"ä":[true,null]}'
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest(Config(rate=np.float64(0.1))) == digest(Config(rate=0.1))


@pytest.mark.parametrize("value", [Path("here"), {1, 2}, b"bytes", Config, np.int64(3)])
def test_what_has_no_one_text_is_refused(value: object):
    with pytest.raises(TypeError, match="a config cannot hold"):
        canonical({"inner": [value]})
    with pytest.raises(ValueError, match="JSON"):
        canonical(Config(rate=float("nan")))


def test_seeds_stay_what_they_were():
    """The first four bytes of SHA-256 of "seed/name", halved: `printf 0/training | sha256sum`.

    A moved stream would be another training.
    """
    assert derived(0, "training") == 0x5FCA7FC3 >> 1
    assert derived(0, "initial weights") == 262494945
    assert derived(1, "training") == 883808851
