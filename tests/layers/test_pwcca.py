"""PWCCA: invariances, an independent implementation, and what noise comes to."""

import numpy as np
import pytest
import torch
from refusing import refuses
from sklearn.cross_decomposition import CCA
from torch import Tensor

from headbook.layers.pwcca import basis, distance, shuffled_distance, similarity

TOKENS, WIDTH = 400, 6
EXACT = 1e-6


def states(seed: int = 0, tokens: int = TOKENS, width: int = WIDTH) -> Tensor:
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(seed))


def related() -> Tensor:
    """Half of the first states' directions, mixed, and noise."""
    return states()[:, :3] @ states(7, 3, WIDTH) + states(3)


def apart(one: Tensor, other: Tensor) -> float:
    return distance(basis(one), basis(other))


def test_it_is_what_another_implementation_finds() -> None:
    """From scikit-learn's canonical variates (Morcos et al., equation 3)."""
    x, y = (each.double().numpy() - each.double().numpy().mean(0) for each in (states(), related()))
    fitted = CCA(WIDTH, scale=False, max_iter=20_000, tol=1e-12).fit(x, y)
    variates, others = fitted.transform(x, y)
    found = [abs(np.corrcoef(h, g)[0, 1]) for h, g in zip(variates.T, others.T, strict=True)]
    weights = np.abs((variates / np.linalg.norm(variates, axis=0)).T @ x).sum(1)
    expected = float(weights @ found / weights.sum())
    assert similarity(basis(states()), basis(related())) == pytest.approx(expected, abs=1e-4)


def test_moving_scaling_and_mixing_dimensions_is_no_distance() -> None:
    before = apart(states(), related())
    assert 0.1 < before < 0.9
    other = -3 * related()[:, torch.randperm(WIDTH)] + 7
    assert apart(states(), other) == pytest.approx(before, abs=EXACT)
    assert apart(related(), states()) == pytest.approx(before, abs=EXACT)
    assert apart(states(), 5 * states() @ states(9, WIDTH, WIDTH) + 3) == pytest.approx(0, abs=1e-5)
    still = torch.cat([states(), torch.ones(TOKENS, 1)], dim=1)  # a dimension that never moves
    assert apart(still, states()) == pytest.approx(0, abs=EXACT)


def test_noise_is_as_far_as_sampling_lets_it() -> None:
    """And a shuffle of the tokens is noise: that is the most a distance can be."""
    few, many = (apart(states(0, tokens), states(1, tokens)) for tokens in (60, 20_000))
    assert few < many and many > 0.98
    one, other = basis(states()), basis(related())
    most = shuffled_distance(one, other, seed=0)
    assert most == pytest.approx(apart(states(), states(1)), abs=0.05)
    assert distance(one, other) < most - 0.2


def test_fewer_tokens_than_dimensions_is_refused() -> None:
    refuses(lambda: basis(states(tokens=6)), "6 tokens are too few")
