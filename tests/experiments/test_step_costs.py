"""Steps of an encoder by the length of its texts: what a step does, and what it holds."""

import pytest
import torch

from headbook import timing
from headbook.experiments.step_costs import (
    ALL,
    ENOUGH,
    FUSED,
    EncoderCosts,
    encoder,
    kinds,
    measured,
    step,
)
from headbook.types import UserError

SMALL = EncoderCosts(1, lengths=(64, 1024), layers=1, width=16, heads=2, vocabulary=30)


def test_every_kind_takes_its_turn_and_fewer_keys_need_less_memory():
    found = measured(SMALL)
    assert set(found["kind"]) == {ALL, FUSED, *kinds(64)} and (found["tokens"] == ENOUGH).all()
    assert (found["seconds"] > 0).all()
    held = found.pivot(index="length", columns="kind", values="bytes")
    fewer = held[[f"Linformer, 1 for {parts} tokens" for parts in (2, 4, 8, 16)]].loc[1024]
    assert fewer.is_monotonic_decreasing and fewer.iloc[0] < held[ALL][1024]
    # texts of 64 tokens hold 64 weights per token and head, those of 1,024 sixteen times as many
    assert held[ALL][1024] > 4 * held[ALL][64] and held[FUSED][1024] < 1.5 * held[FUSED][64]


def test_a_step_is_the_loss_of_hidden_tokens_and_its_gradients():
    networks = []
    for kind in (ALL, FUSED):
        model, batch = encoder(SMALL, kind, 64)
        step(model, batch)
        networks.append(model)
    assert batch.source.numel() == ENOUGH and int(batch.target_mask.sum()) == 16 * 10
    for one, other in zip(*(each.parameters() for each in networks), strict=True):
        torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)


def test_times_are_of_whole_rounds(monkeypatch):
    """The first round warms up and is not in the table."""
    seen: list[int] = []
    monkeypatch.setattr(timing, "tqdm", lambda each, **_: (seen.append(one) or one for one in each))
    found = measured(EncoderCosts(2, (16,), 1, 16, 2, 30))
    assert seen == [0, 1, 2] and set(found["round"]) == {1, 2}


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(UserError, match="1 or more"):
        EncoderCosts(0)
    with pytest.raises(UserError, match="16 tokens or more"):
        EncoderCosts(1, lengths=(8,))
