"""Dropout: the rate, byte by byte, the mean, and its silence outside training."""

import pytest
import torch

from headbook.models.dropout import LEVELS, Dropout, byte_mask

WORDS = 20_000
# Five standard deviations: the seeds are fixed, so a pass stays a pass.
SIGMAS = 5.0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_every_byte_of_a_random_number_has_the_rate_and_is_drawn_by_itself(rate: float) -> None:
    """Each of the eight positions inside a 64-bit random number; and from one to the next."""
    torch.manual_seed(0)
    dropped = byte_mask(torch.Size([8 * WORDS]), rate).view(WORDS, 8).double()
    expected = torch.full((8,), round(rate * LEVELS) / LEVELS, dtype=torch.float64)
    spread = SIGMAS * (rate * (1 - rate) / WORDS) ** 0.5
    torch.testing.assert_close(dropped.mean(0), expected, rtol=0, atol=spread)
    pairs = torch.corrcoef(torch.cat([dropped[1:], dropped[:-1]], 1).T) - torch.eye(16)
    assert pairs.abs().max() < SIGMAS / WORDS**0.5


@pytest.mark.parametrize(("rate", "level"), [(0.1, 26), (0.5, 128), (0.001, 0), (0.9999, 255)])
def test_values_are_zero_or_scaled_so_that_the_mean_is_kept(rate: float, level: int) -> None:
    """The rate is rounded to a multiple of a 256th, below one."""
    torch.manual_seed(3)
    values = torch.ones(400, 401, requires_grad=True)
    result = Dropout(rate).train()(values)
    whole = torch.tensor([0, LEVELS / (LEVELS - level)])[0 if level else 1 :]
    torch.testing.assert_close(result.unique(), whole)
    assert result.mean().item() == pytest.approx(1, abs=0.2)
    result.sum().backward()
    assert torch.equal(values.grad, result.detach()) and torch.equal(values, torch.ones(400, 401))


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_and_rate_zero_change_nothing_and_draw_nothing(training: bool) -> None:
    values, before = torch.randn(5), torch.get_rng_state()
    assert Dropout(0.0 if training else 0.5).train(training)(values) is values
    assert torch.equal(torch.get_rng_state(), before)
