"""The text a key is made of: one for equal values, another for different ones."""

import math
from pathlib import Path

import numpy as np
import pytest

from headbook.runs.canonical import canonical
from headbook.runs.seeds import derived
from headbook.training.config import Precision
from headbook.training.models import Size


def test_the_text_by_hand():
    assert canonical(Size()) == '{"feed_forward":512,"heads":8,"layers":6,"width":128}'
    found = canonical({"ä": [True, None], "Z": (np.float64(0.1), Precision.FULL)})
    assert found == '{"Z":[0.1,"32-true"],"ä":[true,null]}'


@pytest.mark.parametrize("value", [Path("here"), {1, 2}, b"bytes", Size, np.int64(3), math.nan])
def test_what_has_no_one_text_is_refused(value: object):
    with pytest.raises((TypeError, ValueError), match=r"asdict|JSON"):
        canonical({"inner": [value]})


def test_seeds_stay_what_they_were():
    """The first four bytes of SHA-256 of "seed/name", halved: `printf 0/training | sha256sum`.

    A moved stream would be another training.
    """
    assert derived(0, "training") == 0x5FCA7FC3 >> 1
    assert derived(0, "initial weights") == 262494945
    assert derived(1, "training") == 883808851
