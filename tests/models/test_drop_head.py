"""DropHead: whole heads of a sentence, the sum kept, none at test time, and its V."""

import pytest
import torch
from blocks import ragged, tiny

from headbook.models.drop_head import DropHead, drop_heads


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_whole_heads_go_each_by_itself_and_the_sum_stays(rate: float):
    torch.manual_seed(0)
    module = DropHead(rate).train()
    found = module(torch.ones(4000, 8, 3, 2))
    assert torch.equal(found, found[:, :, :1, :1].expand_as(found))
    found = found[:, :, 0, 0]
    kept = (found != 0).double()
    assert kept.mean() == pytest.approx(1 - rate, abs=0.02)
    assert torch.corrcoef(kept.T).fill_diagonal_(0).abs().max() < 0.1
    some = kept.any(1)
    assert torch.allclose(found[some].sum(1), torch.tensor(8.0)) and (found[~some] == 0).all()


def test_nothing_is_dropped_at_test_time_or_at_rate_nought():
    model, batch = tiny(), ragged([5, 3], [4, 6])
    plain = model.eval()(batch)
    drop_heads(model, 0.7)
    assert torch.equal(model.eval()(batch), plain)
    assert not torch.equal(model.train()(batch), plain)
    drop_heads(model, 0.0)
    assert torch.equal(model.train()(batch), plain)
