"""DropHead: whole heads of a sentence, the sum kept, none at test time, and its V."""

import pytest
import torch

from headbook.models.capture import Point, capture
from headbook.models.drop_head import DropHead, DropHeadSchedule, drop_heads, set_rate
from headbook.models.gates import close_heads
from headbook.types import HeadId, Kind, UserError


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_whole_heads_go_each_by_itself_and_the_sum_stays(rate: float):
    torch.manual_seed(0)
    module = DropHead().train()
    module.rate = rate
    found = module(torch.ones(4000, 8, 3, 2))
    assert torch.equal(found, found[:, :, :1, :1].expand_as(found))
    found = found[:, :, 0, 0]
    kept = (found != 0).double()
    assert kept.mean() == pytest.approx(1 - rate, abs=0.02)
    assert torch.corrcoef(kept.T).fill_diagonal_(0).abs().max() < 0.1
    some = kept.any(1)
    assert torch.allclose(found[some].sum(1), torch.tensor(8.0)) and (found[~some] == 0).all()


def test_all_heads_gone_is_no_nan(tiny, ragged):
    model = tiny().train()
    drop_heads(model)
    set_rate(model, 0.999)
    logits = model(ragged([5, 3], [4, 6]))
    logits.sum().backward()
    found = [logits, *(each.grad for each in model.parameters() if each.grad is not None)]
    assert all(torch.isfinite(each).all() for each in found)


def test_nothing_is_dropped_at_test_time_or_at_rate_nought(tiny, ragged):
    model, batch = tiny(), ragged([5, 3], [4, 6])
    plain = model.eval()(batch)
    drop_heads(model)
    set_rate(model, 0.7)
    assert torch.equal(model.eval()(batch), plain)
    assert not torch.equal(model.train()(batch), plain)
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


def test_a_closed_head_stays_closed(tiny):
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
        (DropHeadSchedule(0.4, 0.0), [0.4, 0.3, 0.2, 0.1, 0.0]),
        (DropHeadSchedule(0.4, 0.2, 0.5), [0.4, 0.2, 0.0, 0.1, 0.2]),
    ],
)
def test_its_course(schedule: DropHeadSchedule, expected: list[float]):
    rates = [schedule.rate(update, 5) for update in range(1, 6)]
    assert rates == pytest.approx(expected)
    with pytest.raises(UserError, match="below 1, not 2"):
        DropHeadSchedule(0.1, 2.0)
