"""Silent heads and null networks: what changes inside the block, and that all of it comes back."""

import copy
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from refusing import refused
from torch import Tensor

import headbook as hb
from headbook.looking.ours import OurModel
from headbook.models.gates import FixedGate

CLOSE = {"rtol": 1e-5, "atol": 1e-6}
TEXT = ["The dog sees a cat .", "It sleeps ."]


@pytest.fixture
def model(ours: OurModel) -> OurModel:
    return replace(ours, network=copy.deepcopy(ours.network))


def logits(model: OurModel) -> Tensor:
    (batch,) = model.batches(TEXT, TEXT)
    with torch.inference_mode():
        return model.network(batch)[batch.target_mask]


def gates(model: OurModel) -> list:
    return [block.gate for _, _, block in model.network.attentions()]


def test_gates_come_back_also_after_an_error(model):
    first = next(block for _, _, block in model.network.attentions())
    first.gate = FixedGate(torch.tensor([0.5, 1.0]))
    before, whole = gates(model), logits(model)
    with hb.close(model, "L1H2"):
        assert first.gate().tolist() == [0.5, 0]  # what was half silent stays so
    assert gates(model) == before
    with pytest.raises(ZeroDivisionError), hb.close(model, "L1H1"):
        raise ZeroDivisionError
    assert gates(model) == before and torch.equal(logits(model), whole)


def test_an_unknown_head_is_refused_and_nothing_is_closed(model):
    for name in ("L3H1", "cross L9H1", "head five"):
        with refused(), hb.close(model, ["L1H1", name]):
            pass
    assert gates(model) == [None] * 6


def test_null_networks_are_permuted_and_drawn_in_turn_and_leave_the_model_as_it_was(model):
    def values() -> list[float]:
        return sorted(model.network.encoder[0].attention.query.weight.flatten().tolist())

    own, seen = values(), [logits(model)]
    same = []
    for null in hb.nulls(model, 4):
        same.append(values() == own)
        seen.append(logits(null))
    assert same == [True, False, True, False]
    assert not any(torch.equal(one, other) for one, other in combinations(seen, 2))
    for _ in hb.nulls(model):
        break
    with pytest.raises(ZeroDivisionError):
        for _ in hb.nulls(model):
            raise ZeroDivisionError
    assert torch.equal(logits(model), seen[0])
