"""Dropout: the rate, byte by byte, the mean, and its silence outside training."""

import pytest
import torch

from headbook.models.dropout import LEVELS, Dropout, byte_mask

WORDS = 20_000
# Five standard deviations: the seeds are fixed, so a pass stays a pass.
SIGMAS = 5.0


def spread(rate: float, draws: int) -> float:
    """The largest plausible distance of a frequency from its rate."""
    return SIGMAS * (rate * (1 - rate) / draws) ** 0.5


def assert_every_byte_has_the_rate(rate: float) -> None:
    """Each of the eight positions inside a 64-bit random number drops at `rate`."""
    torch.manual_seed(0)
    dropped = byte_mask(torch.Size([8 * WORDS]), rate).view(WORDS, 8).double().mean(0)
    expected = torch.full((8,), round(rate * LEVELS) / LEVELS, dtype=torch.float64)
    torch.testing.assert_close(dropped, expected, rtol=0, atol=spread(rate, WORDS))


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_every_byte_of_a_random_number_has_the_rate(rate: float) -> None:
    assert_every_byte_has_the_rate(rate)


def test_planted_half_range_of_random_numbers_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its full range, `random_` leaves the sign bit 0 and the top byte below 128."""
    draw = torch.Tensor.random_
    monkeypatch.setattr(torch.Tensor, "random_", lambda tensor, *_: draw(tensor))
    with pytest.raises(AssertionError, match="not close"):
        assert_every_byte_has_the_rate(0.25)


def test_positions_inside_a_word_are_uncorrelated() -> None:
    torch.manual_seed(1)
    dropped = byte_mask(torch.Size([8 * WORDS]), 0.5).view(WORDS, 8).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(8)
    assert correlation.abs().max() < SIGMAS / WORDS**0.5


def test_neighbouring_words_are_uncorrelated() -> None:
    torch.manual_seed(2)
    dropped = byte_mask(torch.Size([8 * WORDS]), 0.5).view(WORDS, 8).double() - 0.5
    correlation = (dropped[1:].T @ dropped[:-1]) / (0.25 * WORDS)
    assert correlation.abs().max() < SIGMAS / WORDS**0.5


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5), (2, 3, 4, 5)])
def test_mask_has_the_shape_asked_for(shape: tuple[int, ...]) -> None:
    assert byte_mask(torch.Size(shape), 0.5).shape == shape


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_values_are_zero_or_scaled_so_that_the_mean_is_kept(rate: float) -> None:
    torch.manual_seed(3)
    result = Dropout(rate).train()(torch.ones(400, 400))
    kept = 1 - round(rate * LEVELS) / LEVELS
    values = result.unique()
    assert len(values) == 2
    torch.testing.assert_close(values, torch.tensor([0, 1 / kept]))
    assert abs(result.mean().item() - 1) < spread(rate, 400 * 400) / kept


@pytest.mark.parametrize(("rate", "level"), [(0.1, 26), (0.3, 77), (0.002, 1), (0.001, 0)])
def test_rate_is_rounded_to_a_multiple_of_a_256th(rate: float, level: int) -> None:
    result = Dropout(rate).train()(torch.ones(10))
    torch.testing.assert_close(result.max().item(), LEVELS / (LEVELS - level), rtol=1e-6, atol=0)


def test_rate_next_to_one_still_keeps_something() -> None:
    torch.manual_seed(4)
    result = Dropout(0.9999).train()(torch.ones(100_000))
    assert result.isfinite().all()
    assert 0 < (result != 0).sum() < 1000


def test_gradient_passes_where_values_passed_and_nowhere_else() -> None:
    torch.manual_seed(5)
    values = torch.ones(50, 50, requires_grad=True)
    result = Dropout(0.5).train()(values)
    result.sum().backward()
    assert torch.equal(values.grad, result.detach())


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_and_rate_zero_change_nothing_and_draw_nothing(training: bool) -> None:
    values, before = torch.randn(5), torch.get_rng_state()
    assert Dropout(0.0 if training else 0.5).train(training)(values) is values
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_draws_the_same_mask_and_another_seed_another() -> None:
    masks = []
    for seed in (6, 6, 7):
        torch.manual_seed(seed)
        masks.append(byte_mask(torch.Size([500]), 0.5))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert not torch.equal(masks[0], byte_mask(torch.Size([500]), 0.5))


def test_the_input_is_left_as_it_was() -> None:
    values = torch.randn(100)
    before = values.clone()
    Dropout(0.5).train()(values)
    assert torch.equal(values, before)
