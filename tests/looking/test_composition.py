"""Composition scores: planted ones, a product written out, and models that are not there."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from headbook.looking.composition import (
    EncoderWeights,
    Way,
    composition,
    over_redrawn,
    weights_of,
)
from headbook.looking.load import load

LAYERS, HEADS, WIDTH, DIM = 3, 2, 16, 4
PAIRS = [(a, g, b, h) for a, g, b, h in product(range(3), range(2), range(3), range(2)) if a < b]


def drawn(pre_norm: bool, heads: int = HEADS) -> EncoderWeights:
    torch.manual_seed(0)
    shape = LAYERS, heads, WIDTH, DIM
    parts = [torch.randn(shape, dtype=torch.float64) for _ in range(4)]
    gains = torch.rand(LAYERS, 2, WIDTH, dtype=torch.float64)
    return EncoderWeights(*parts, gains, pre_norm)


def written_out(weights: EncoderWeights, pair: tuple[int, int, int, int], way: Way) -> Tensor:
    """The score with every matrix multiplied in full."""
    lower, one, upper, other = pair
    centring = torch.eye(WIDTH, dtype=torch.float64) - 1 / WIDTH
    out = weights.values[lower, one] @ weights.outputs[lower, one].T
    between = [gain for layer in range(lower, upper) for gain in weights.gains[layer]]
    for gain in [weights.gains[upper, 0]] if weights.pre_norm else between:
        out = out @ centring @ gain.diag()
    queries, keys, values, outputs = (
        each[upper, other]
        for each in (weights.queries, weights.keys, weights.values, weights.outputs)
    )
    reader = {Way.QUERY: queries @ keys.T, Way.KEY: keys @ queries.T, Way.VALUE: values @ outputs.T}
    return (out @ reader[way]).norm() / (out.norm() * reader[way].norm())


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("at", range(3), ids=[*Way])
def test_scores_are_those_of_full_matrices(pre_norm: bool, at: int) -> None:
    weights = drawn(pre_norm)
    found, way = composition(weights)[at], [*Way][at]
    for pair in PAIRS:
        torch.testing.assert_close(found[pair], written_out(weights, pair, way))
    assert int(found.isfinite().sum()) == len(PAIRS)


@pytest.mark.parametrize(("at", "name"), list(enumerate(["queries", "keys", "values"])))
def test_a_head_that_reads_what_another_writes_composes_that_way_alone(at: int, name: str) -> None:
    """Head 2 of layer 3 reads the very directions that head 1 of layer 1 writes: 1/√dim."""
    weights = replace(drawn(pre_norm=False), gains=torch.ones(LAYERS, 2, WIDTH).double())
    basis = torch.linalg.qr(torch.randn(WIDTH, 3 * DIM + 1, dtype=torch.float64)).Q
    basis[:, 0] = 1  # Nobody writes what centring takes.
    basis = torch.linalg.qr(basis).Q[:, 1:]
    for part in ("values", "outputs"):
        getattr(weights, part)[0, 0] = basis[:, :DIM]
    for part in ("queries", "keys", "values", "outputs"):
        getattr(weights, part)[2, 1] = basis[:, DIM : 2 * DIM]
    getattr(weights, name)[2, 1] = basis[:, :DIM]
    scores = composition(weights)[:, 0, 0, 2, 1]
    assert scores[at] == pytest.approx(DIM**-0.5)
    assert scores[torch.arange(3) != at].abs().max() < 1e-12


def test_redrawn_weights_are_at_chance_and_scales_do_not_matter() -> None:
    weights = drawn(pre_norm=False, heads=12)
    found = over_redrawn(weights)
    assert float(found.nanmean()) == pytest.approx(1, abs=0.03)
    assert float(composition(weights.redrawn(1)).square().nanmean()) == pytest.approx(
        1 / WIDTH, rel=0.1
    )
    scaled = replace(weights, values=weights.values * 7, keys=weights.keys * 0.1)
    torch.testing.assert_close(over_redrawn(scaled), found, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "heads", "pre_norm"),
    [("minilm", 12, False), ("firefox-en-pt", 8, False), ("mixture-fr-256-masked", 8, True)],
)
def test_weights_of_models_with_either_place_of_norms(
    name: str, heads: int, pre_norm: bool, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path))
    weights = weights_of(load(name))
    assert weights.pre_norm is pre_norm and weights.values.shape[:2] == (6, heads)
    scores = composition(weights)
    assert int(scores.isfinite().sum()) == 3 * 15 * heads**2
    known = scores[scores.isfinite()]
    assert known.min() > 0 and known.max() < 1
