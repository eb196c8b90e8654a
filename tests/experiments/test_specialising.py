"""What is asked of the best heads in the course of a training."""

import numpy as np
import pandas as pd
import pytest

from headbook.experiments import specialising
from headbook.experiments.specialising import NEIGHBOUR, RARE, RELATION, Snapshot


def snapshot(update: int, bleu: float, own: float, web: float) -> Snapshot:
    """The same score for each sort of place, without spread."""
    names = [NEIGHBOUR, RELATION, RARE]
    frames = [
        pd.DataFrame({"chosen": x, "scores": [np.full(5, x)] * 3}, index=names) for x in (own, web)
    ]
    return Snapshot(update, *frames, bleu, np.full(5, own / 2))


def test_what_is_asked_of_a_course():
    """The first snapshot with nine tenths of the last BLEU is the third."""
    course = [snapshot(0, 0, 0.1, 0.1), snapshot(64, 17, 0.3, 0.2), snapshot(91, 18.5, 0.7, 0.4)]
    course.append(snapshot(128, 20, 0.6, 0.5))
    found = specialising.answers(course, [snapshot(128, 20, 0.2, 0.2)])
    expected = {f"highest, {name}": 0.7 for name in (NEIGHBOUR, RELATION, RARE)}
    expected |= {"since it translates": -0.1, "relevance gained": 0.25}
    expected |= {"own text over web": 0.1, "wide over narrow": 0.4}
    assert {name: x[0] for name, x in found.items()} == pytest.approx(expected)
