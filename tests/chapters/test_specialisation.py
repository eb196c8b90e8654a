"""The most specialised head: chosen on one half of the sentences and scored on the other."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from headbook.artefacts.heads import HeadsRun
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.texts import Text
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement
from headbook.chapters.sixteen._specialisation import (
    ROLES,
    Score,
    most_confident,
    offset_of,
    sharpest,
    threshold,
)
from headbook.corpora.readers import Pairs, ParallelCorpus
from headbook.corpora.report import Report
from headbook.heads.measure import RatioSums
from headbook.heads.positional import Place
from headbook.heads.roles import Thresholds

SPREAD = 0.01
"""What each of the three replicates is larger by than the one before."""


def sums(first: Tensor, second: Tensor) -> RatioSums:
    """Shares on the two halves, with replicates."""
    shares = torch.stack([first, second]).double()[:, None]
    steps = SPREAD * torch.arange(4).reshape(1, -1, *[1] * first.ndim)
    return RatioSums(100 * (shares + steps), torch.full_like(shares + steps, 100.0))


def cells(size: int, values: dict[tuple[int, int, int], float]) -> Tensor:
    """[2 layers, 3 heads, size], 0.01 everywhere but where it is told."""
    filled = torch.full((2, 3, size), 0.01)
    for place, value in values.items():
        filled[place] = value
    return filled


def shares(size: int, values: dict[int, float]) -> Tensor:
    """[3 offsets, size], 0.2 at the middle one and elsewhere 0, but where it is told."""
    filled = torch.zeros(3, size)
    filled[1] = 0.2
    for column, value in values.items():
        filled[2, column] = value
    return filled


PLANTED = {
    # by luck head (0, 1) is the better one on the half that scores
    "positional/encoder": (
        # cells are offsets -2 to +2
        cells(5, {(1, 2, 3): 0.9, (0, 2, 2): 0.97, (1, 0, 0): 0.8}),
        cells(5, {(1, 2, 3): 0.7, (0, 1, 1): 0.95, (0, 2, 2): 0.96, (1, 0, 0): 0.6}),
    ),
    # the most accurate head is at 0.6, where a fixed offset has 0.55; that of 0.4 is 0.2 above
    "syntactic": (
        cells(8, {(0, 0, 0): 0.6, (1, 1, 5): 0.4}),
        cells(8, {(0, 0, 0): 0.6, (1, 1, 5): 0.35}),
    ),
    "offsets": (shares(8, {0: 0.55}), shares(8, {0: 0.55, 5: 0.9})),
    # pointing at the rarest alone is the first cell and does not count
    "rare": (
        cells(2, {(0, 2, 0): 0.99, (1, 0, 1): 0.5}),
        cells(2, {(0, 2, 0): 0.99, (1, 0, 1): 0.45}),
    ),
    # a head has one confidence; by luck the first is the surer on the half that scores
    "confidence/encoder": (
        torch.tensor([[0.2, 0.3, 0.1], [0.4, 0.6, 0.2]]),
        torch.tensor([[0.9, 0.3, 0.1], [0.4, 0.5, 0.2]]),
    ),
}


@pytest.fixture
def measurement() -> Measurement:
    none = Pairs((), ())
    corpus = ParallelCorpus("mine", "de", none, none, {}, "", Report())
    model = TrainedModel(Config("smoke").one_model(), Path(), corpus)
    text = Text("held-out", (), (), (), "gold")
    planted = {name: sums(*halves) for name, halves in PLANTED.items()}
    return Measurement(model, text, HeadsRun("held-out"), planted)


@pytest.mark.parametrize(
    ("score", "place", "chosen", "value"),
    [
        (Score.NEIGHBOUR, (1, 2), 0.9, 0.7),
        (Score.OWN, (0, 2), 0.97, 0.96),
        (Score.OTHER, (1, 0), 0.8, 0.6),
        # the offset is chosen on the first half too, whichever is most frequent on the other
        (Score.MARGIN, (1, 1), 0.4 - 0.2, 0.35 - 0.2),
        (Score.RARE, (1, 0), 0.5, 0.45),
    ],
)
def test_it_is_chosen_on_one_half_and_scored_on_the_other(
    measurement: Measurement, score: Score, place: tuple[int, int], chosen: float, value: float
):
    found = sharpest(measurement.sums, score)
    assert (found.layer, found.head) == place
    assert found.chosen == pytest.approx(chosen, abs=1e-6)
    assert found.value == pytest.approx(value, abs=1e-6)


def test_the_offset_is_named(measurement: Measurement):
    near, far = (sharpest(measurement.sums, each) for each in (Score.NEIGHBOUR, Score.OTHER))
    assert offset_of(near, Place.NEIGHBOUR, reach=2) == 1
    assert offset_of(far, Place.OTHER, reach=2) == -2


def test_the_interval_is_over_the_replicates(measurement: Measurement):
    low, high = sharpest(measurement.sums, Score.NEIGHBOUR).ends
    assert 0.7 + SPREAD <= low < high <= 0.7 + 3 * SPREAD + 1e-9


def test_replicates_of_a_margin_are_paired(measurement: Measurement):
    """Accuracy and baseline grow alike from replicate to replicate: their difference stays."""
    found = sharpest(measurement.sums, Score.MARGIN).replicates
    torch.testing.assert_close(found, torch.full_like(found, 0.15), rtol=0, atol=1e-6)


def test_what_no_token_counts_for_is_never_chosen(measurement: Measurement):
    halves = [each.clone() for each in PLANTED["positional/encoder"]]
    for half in halves:
        half[1, 2, 3] = torch.nan
    other = {**measurement.sums, "positional/encoder": sums(*halves)}
    assert sharpest(other, Score.NEIGHBOUR).value < 0.9


def test_thresholds_are_those_of_the_roles():
    of = Thresholds()
    assert [threshold(each) for each in ROLES] == [of.positional, of.syntactic_margin, of.rare]


def test_the_most_confident_head_is_chosen_on_one_half_too(measurement: Measurement):
    found = most_confident(measurement.sums)
    assert (found.layer, found.head) == (1, 1)
    assert found.chosen == pytest.approx(0.6) and found.value == pytest.approx(0.5)
    assert found.replicates.tolist() == pytest.approx([0.5, 0.51, 0.52, 0.53])
