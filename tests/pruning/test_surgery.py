"""Surgery: the smaller model is the gated one, to rounding, and an ordinary model otherwise."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import pytest
import torch
from torch import Tensor

from headbook.models.gates import FixedGate, all_heads, close_heads
from headbook.models.transformer import Transformer
from headbook.pruning import surgery
from headbook.pruning.gating import gate_heads, gates
from headbook.pruning.hard_concrete import CONSTANTS, Source
from headbook.pruning.surgery import take_out
from headbook.text.batches import EOS, Batch, collate
from headbook.types import HeadId, Kind, UserError

CLOSE = {"rtol": 1e-9, "atol": 1e-10}
LADDER = (1, 2, 9, 33)
HEADS = tuple(HeadId(kind, layer, head) for kind in Kind for layer in range(2) for head in range(4))
SETS = {
    "none": (),
    "one": (HeadId(Kind.CROSS, 1, 2),),
    "others in every block": tuple(head for head in HEADS if (head.head + head.layer) % 2),
    "a block of each kind": tuple(head for head in HEADS if head.layer == 0),
    "all of one kind": tuple(head for head in HEADS if head.kind is Kind.CROSS),
    "all but one": HEADS[1:],
    "all": HEADS,
}
Build = Callable[..., Transformer]


def batch_of(source: Sequence[int], target: Sequence[int]) -> Batch:
    noise = torch.Generator().manual_seed(len(source) + sum(source))
    sides = [
        [[*torch.randint(3, 12, (length - 1,), generator=noise).tolist(), EOS] for length in side]
        for side in (source, target)
    ]
    return collate(list(zip(*sides, strict=True)), range(len(source)))


def assert_same(model: Transformer, batch: Batch, remove: Callable = take_out) -> Transformer:
    """The smaller model gives the gated one's logits at every real position."""
    smaller = remove(model)
    torch.testing.assert_close(smaller(batch), model(batch), **CLOSE)
    return smaller


def gated(tiny: Build, heads: Iterable[HeadId] = SETS["others in every block"], **more) -> Build:
    model = tiny(**more).double()
    close_heads(model, heads)
    return model


@pytest.mark.parametrize("name", SETS)
def test_the_logits_are_those_of_the_gated_model(tiny: Build, name: str) -> None:
    assert_same(gated(tiny, SETS[name]), batch_of([3, 9, 1, 5], [7, 2, 1, 4]))


@pytest.mark.parametrize(("source", "target"), list(product(LADDER, LADDER)))
def test_the_logits_are_the_same_at_every_length(tiny: Build, source: int, target: int) -> None:
    assert_same(gated(tiny), batch_of([source], [target]))
    assert_same(gated(tiny), batch_of([source, 1, 2], [1, target, 2]))


def test_a_gate_between_nought_and_one_is_multiplied_in(tiny: Build) -> None:
    model = tiny().double()
    for number, (_, _, block) in enumerate(model.attentions()):
        values = torch.tensor([0.0, 0.25, 1.0, -1.5 + number], dtype=torch.float64)
        block.gate = FixedGate(values)
    smaller = assert_same(model, batch_of([3, 9], [7, 2]))
    assert all(block.heads == 3 for _, _, block in smaller.attentions())


def test_learned_gates_are_taken_as_they_are_decided(tiny: Build) -> None:
    model = tiny().double()
    gate_heads(model, tuple(Kind), CONSTANTS[Source.CODE], 0)
    for _, _, gate in gates(model):
        gate.log_alpha.data = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64)
    smaller = assert_same(model.eval(), batch_of([3, 9], [7, 2]))
    assert all(block.heads == 2 for _, _, block in smaller.attentions())
    assert not list(gates(smaller)) and not smaller.training


def parameters(model: Transformer) -> int:
    return sum(each.numel() for each in model.parameters())


@pytest.mark.parametrize("name", SETS)
def test_a_head_takes_its_rows_and_columns_with_it(tiny: Build, name: str) -> None:
    """Four widths times the width of a head, and three biases: 4 · 16 · 4 + 3 · 4."""
    model = tiny()
    close_heads(model, SETS[name])
    smaller = take_out(model)
    assert parameters(model) - parameters(smaller) == len(SETS[name]) * (4 * 16 * 4 + 3 * 4)
    removed = len(all_heads(model)) - len(all_heads(smaller))
    assert removed == len(SETS[name])
    for kind, layer, block in smaller.attentions():
        left = 4 - sum((head.kind, head.layer) == (kind, layer) for head in SETS[name])
        assert block.heads == left and smaller.config.head_counts.of(kind, layer) == left
        assert block.query.weight.shape == (4 * left, 16)
        assert block.output.weight.shape == (16, 4 * left)


def test_a_gate_that_is_nan_is_said_and_nothing_is_taken_out(tiny: Build) -> None:
    model = gated(tiny)
    model.decoder[0].cross.gate.multipliers[1] = math.nan
    with pytest.raises(UserError, match="a gate is NaN: nothing was taken out"):
        take_out(model)


KEPT = surgery._kept
MULTIPLIERS = surgery._multipliers


def _inverted(block: torch.nn.Module, multipliers: Tensor, name: str) -> dict[str, Tensor]:
    return KEPT(block, multipliers.flip(0), name)


@pytest.mark.parametrize("fault", [_inverted])
def test_a_planted_fault_is_seen(
    tiny: Build, fault: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny().double()
    for _, _, block in model.attentions():
        block.gate = FixedGate(torch.tensor([0.0, 0.5, 1.0, 0.0], dtype=torch.float64))
    batch = batch_of([3, 9], [7, 2])
    assert_same(model, batch)
    monkeypatch.setattr(surgery, "_kept", fault)
    with pytest.raises((AssertionError, UserError)):
        assert_same(model, batch)
