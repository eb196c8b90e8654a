"""DropHead: whole heads of a sentence, the sum kept, none at test time, and its V."""

import pytest
import torch

from headbook.models.capture import Point, capture
from headbook.models.drop_head import DropHead, DropHeadSchedule, drop_heads, set_rate
from headbook.models.gates import close_heads
from headbook.types import HeadId, Kind, UserError


def dropped(rate: float, batch: int = 4000, heads: int = 8) -> torch.Tensor:
    torch.manual_seed(0)
    module = DropHead().train()
    module.rate = rate
    return module(torch.ones(batch, heads, 3, 2))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_whole_heads_go_and_the_sum_stays(rate: float):
    found = dropped(rate)
    assert torch.equal(found, found[:, :, :1, :1].expand_as(found))
    assert (found == 0).float().mean() == pytest.approx(rate, abs=0.02)
    sums = found[:, :, 0, 0].sum(1)
    some = (found[:, :, 0, 0] != 0).any(1)
    assert torch.allclose(sums[some], torch.tensor(8.0)) and (sums[~some] == 0).all()


def test_sentences_and_heads_are_drawn_apart():
    kept = (dropped(0.5)[:, :, 0, 0] != 0).double()
    assert torch.corrcoef(kept.T).fill_diagonal_(0).abs().max() < 0.1
    assert kept.std(0).min() > 0.4 and kept.std(1).mean() > 0.4


def test_all_heads_gone_is_no_nan(tiny, ragged):
    model = tiny().train()
    drop_heads(model)
    set_rate(model, 0.999)
    logits = model(ragged([5, 3], [4, 6]))
    logits.sum().backward()
    assert torch.isfinite(logits).all()
    assert all(torch.isfinite(each.grad).all() for each in model.parameters()
               if each.grad is not None)  # fmt: skip


def test_nothing_is_dropped_at_test_time_or_at_rate_nought(tiny, ragged):
    model, batch = tiny(), ragged([5, 3], [4, 6])
    plain = model.eval()(batch)
    drop_heads(model)
    set_rate(model, 0.7)
    assert torch.equal(model.eval()(batch), plain)
    set_rate(model, 0.0)
    assert torch.equal(model.train()(batch), plain)


def test_what_is_recorded_is_what_the_head_computed(tiny, ragged):
    model, batch = tiny().train(), ragged([5, 3], [4, 6])
    with capture(model, {Point.CONTEXT}) as whole:
        model(batch)
    drop_heads(model)
    set_rate(model, 0.9)
    with capture(model, {Point.CONTEXT}) as tape:
        model(batch)
    first = (each[Kind.ENCODER, Point.CONTEXT][0] for each in (whole, tape))
    assert torch.equal(*first)


def test_a_closed_head_stays_closed(tiny, ragged):
    model = tiny().train()
    close_heads(model, [HeadId(Kind.ENCODER, 0, head) for head in range(4)])
    drop_heads(model)
    set_rate(model, 0.5)
    block = model.encoder[0].attention
    states = torch.randn(2, 5, 16, dtype=torch.float64)
    assert torch.equal(block(states, states), block.output.bias.expand(2, 5, 16))


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        (DropHeadSchedule(0.2, 0.2), [0.2, 0.2, 0.2, 0.2, 0.2]),
        (DropHeadSchedule(0.4, 0.0), [0.4, 0.3, 0.2, 0.1, 0.0]),
        (DropHeadSchedule(0.4, 0.2, 0.5), [0.4, 0.2, 0.0, 0.1, 0.2]),
    ],
)
def test_its_course(schedule: DropHeadSchedule, expected: list[float]):
    rates = [schedule.rate(update, 5) for update in range(1, 6)]
    assert rates == pytest.approx(expected)
    assert schedule.rate(1, 1) == schedule.start


@pytest.mark.parametrize("given", [(1.0, 0.1), (-0.1, 0.1), (0.1, 2.0), (0.1, 0.1, 0.0),
                                   (0.1, 0.1, 1.0)])  # fmt: skip
def test_what_is_no_rate_is_refused(given: tuple[float, ...]):
    with pytest.raises(UserError):
        DropHeadSchedule(*given)


def test_a_model_that_drops_none_says_so(tiny):
    with pytest.raises(UserError, match="drop_heads"):
        set_rate(tiny(), 0.1)
