"""PWCCA: invariances, known correlations, an independent implementation, planted faults."""

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.cross_decomposition import CCA
from torch import Tensor

from headbook.layers.pwcca import basis, distance, shuffled_distance, similarity
from headbook.types import UserError

TOKENS, WIDTH = 400, 6
EXACT = 1e-6


def states(seed: int = 0, tokens: int = TOKENS, width: int = WIDTH) -> Tensor:
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(seed))


def related() -> Tensor:
    """Half of the first states' directions, mixed, and noise."""
    return states()[:, :3] @ states(7, 3, WIDTH) + states(3)


def apart(one: Tensor, other: Tensor) -> float:
    return distance(basis(one), basis(other))


def as_published(one: Tensor, other: Tensor) -> float:
    """PWCCA once more, from scikit-learn's canonical variates (Morcos et al., equation 3)."""
    x, y = (each.double().numpy() - each.double().numpy().mean(0) for each in (one, other))
    fitted = CCA(WIDTH, scale=False, max_iter=20_000, tol=1e-12).fit(x, y)
    variates, others = fitted.transform(x, y)
    found = [abs(np.corrcoef(h, g)[0, 1]) for h, g in zip(variates.T, others.T, strict=True)]
    weights = np.abs((variates / np.linalg.norm(variates, axis=0)).T @ x).sum(1)
    return float(weights @ found / weights.sum())


def test_an_invertible_linear_map_is_no_distance() -> None:
    assert apart(states(), states()) == pytest.approx(0, abs=EXACT)
    assert apart(states(), 5 * states() @ states(9, WIDTH, WIDTH) + 3) == pytest.approx(0, abs=1e-5)


def test_moving_scaling_and_reordering_dimensions_changes_nothing() -> None:
    before = apart(states(), related())
    assert 0.1 < before < 0.9
    other = -3 * related()[:, torch.randperm(WIDTH)] + 7
    assert apart(states(), other) == pytest.approx(before, abs=EXACT)
    assert apart(related(), states()) == pytest.approx(before, abs=EXACT)


def test_turning_moves_the_weights_alone() -> None:
    """The correlations stay; so the distance is nearly the same, and not exactly."""
    turned = related() @ torch.linalg.qr(states(9, WIDTH, WIDTH)).Q
    one, two, three = (basis(each).scores for each in (states(), related(), turned))
    kept, again = (torch.linalg.svdvals(one.T @ other) for other in (two, three))
    assert torch.allclose(kept, again)
    assert apart(states(), turned) == pytest.approx(apart(states(), related()), abs=0.05)


def test_noise_is_as_far_as_sampling_lets_it() -> None:
    """And a shuffle of the tokens is noise: that is the most a distance can be."""
    few, many = (apart(states(0, tokens), states(1, tokens)) for tokens in (60, 20_000))
    assert few < many and many > 0.98
    one, other = basis(states()), basis(related())
    most = shuffled_distance(one, other, seed=0)
    assert most == pytest.approx(apart(states(), states(1)), abs=0.05)
    assert distance(one, other) < most - 0.2
    assert shuffled_distance(one, other, 0) != shuffled_distance(one, other, 1)


def test_correlations_are_the_cosines_of_scipy_s_angles() -> None:
    """With equal weights: of white states every direction accounts for as much."""
    white = torch.linalg.qr(states().double() - states().double().mean(0)).Q
    other = related().double() - related().double().mean(0)
    cosines = np.cos(subspace_angles(white.numpy(), other.numpy()))
    left, *_ = torch.linalg.svd(basis(white).scores.T @ basis(other).scores)
    weights = (left.T @ basis(white).loadings).abs().sum(1)
    expected = float((weights * torch.tensor(np.sort(cosines)[::-1].copy())).sum() / weights.sum())
    assert similarity(basis(white), basis(other)) == pytest.approx(expected, abs=EXACT)


def test_it_is_what_another_implementation_finds() -> None:
    assert similarity(basis(states()), basis(related())) == pytest.approx(
        as_published(states(), related()), abs=1e-4
    )


def test_directions_that_account_for_more_weigh_more() -> None:
    """The direction that is shared is large in one state and small in the other."""
    shared = states(5, width=1)
    large = torch.cat([10 * shared, states(1)], dim=1)
    small = torch.cat([0.1 * shared, states(2)], dim=1)
    assert similarity(basis(large), basis(small)) > similarity(basis(small), basis(large)) + 0.2


def test_a_dimension_that_never_moves_is_left_out() -> None:
    still = torch.cat([states(), torch.ones(TOKENS, 1)], dim=1)
    assert basis(still).scores.shape == (TOKENS, WIDTH)
    assert apart(still, states()) == pytest.approx(0, abs=EXACT)


FAULTS = {
    "not centred": lambda self, axis: torch.zeros(()),
    "centred along the wrong axis": lambda self, axis: self.sum(1, keepdim=True) / self.shape[1],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_states_that_share_nothing_but_where_they_lie_are_far_apart(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: what all tokens share passes for a common direction."""
    where = 50 * torch.arange(WIDTH)
    one, other = states() + where, states(1) + where
    assert apart(one, other) == pytest.approx(apart(states(), states(1)), abs=EXACT)
    monkeypatch.setattr(torch.Tensor, "mean", FAULTS[fault])
    assert apart(one, other) < 0.7


def test_fewer_tokens_than_dimensions_is_one_line() -> None:
    with pytest.raises(UserError, match="6 tokens are too few") as caught:
        basis(states(tokens=6))
    assert "\n" not in str(caught.value)
