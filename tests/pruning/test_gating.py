"""Learning which heads to keep: what the penalty reaches, what is frozen, what is kept."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from headbook.corpora.batches import EncodedPair, collate
from headbook.models.attention import Attention, AttentionPath
from headbook.models.gates import FixedGate
from headbook.models.transformer import Transformer
from headbook.pruning.gating import (
    HeadPenalty,
    decided_closed,
    freeze_decoder,
    gate_heads,
    gates,
    parameter_groups,
)
from headbook.pruning.hard_concrete import CONSTANTS, HardConcrete, Source
from headbook.training.loop import Trainer
from headbook.types import HeadId, Kind, UserError

CODE = CONSTANTS[Source.CODE]
SOME = ((Kind.ENCODER,), (Kind.CROSS,), (Kind.DECODER, Kind.CROSS), tuple(Kind))
Build = Callable[..., Transformer]
Training = Callable[..., Trainer]


def gated(tiny: Build, kinds: tuple[Kind, ...] = tuple(Kind)) -> Transformer:
    model = tiny()
    gate_heads(model, kinds, CODE, seed=1)
    return model


def assert_reaches_every_gate(penalty: HeadPenalty, model: Transformer) -> None:
    """Its gradient at every gate is λ p (1 - p), whatever else is gated."""
    found = penalty(model)
    expected = sum(float(gate.open_probability().detach().sum()) for _, _, gate in gates(model))
    assert float(found.detach()) == pytest.approx(penalty.strength * expected, rel=1e-5)
    assert found.requires_grad
    found.backward()
    for kind, layer, block in model.attentions():
        if block.gate is not None:
            p = block.gate.open_probability().detach()
            assert block.gate.log_alpha.grad is not None, f"{kind} {layer}"
            torch.testing.assert_close(block.gate.log_alpha.grad, penalty.strength * p * (1 - p))


@pytest.mark.parametrize("kinds", SOME, ids=" ".join)
def test_the_penalty_reaches_every_gate_of_every_gated_block(
    tiny: Build, kinds: tuple[Kind, ...]
) -> None:
    model = gated(tiny, kinds)
    where = {(kind, layer) for kind, layer, _ in gates(model)}
    assert where == {(kind, layer) for kind in kinds for layer in range(2)}
    assert_reaches_every_gate(HeadPenalty(0.05), model)


class Detached(HeadPenalty):
    """Passes the penalty through .item(), as one replication did: λ then has no effect."""

    def __call__(self, model: nn.Module) -> Tensor:
        return torch.tensor(super().__call__(model).item())


class WithoutCross(HeadPenalty):
    """Leaves cross-attention out."""

    def __call__(self, model: nn.Module) -> Tensor:
        kept = [gate for kind, _, gate in gates(model) if kind is not Kind.CROSS]
        return self.strength * sum(gate.open_probability().sum() for gate in kept)


class Averaged(HeadPenalty):
    """The mean over gated blocks: λ of a head then depends on how many there are."""

    def __call__(self, model: nn.Module) -> Tensor:
        return super().__call__(model) / len(list(gates(model)))


class SumOfDetached(HeadPenalty):
    """The right number with a gradient from the first block alone."""

    def __call__(self, model: nn.Module) -> Tensor:
        first, *others = [gate.open_probability().sum() for _, _, gate in gates(model)]
        return self.strength * (first + sum(each.detach() for each in others))


@pytest.mark.parametrize("fault", [Detached, WithoutCross, Averaged, SumOfDetached])
def test_a_planted_fault_in_the_penalty_is_caught(tiny: Build, fault: type[HeadPenalty]) -> None:
    with pytest.raises(AssertionError):
        assert_reaches_every_gate(fault(0.05), gated(tiny))


def test_the_penalty_is_that_of_one_head_however_many_blocks_are_gated(tiny: Build) -> None:
    gradients = []
    for kinds in ((Kind.ENCODER,), tuple(Kind)):
        model = gated(tiny, kinds)
        with torch.no_grad():
            for _, _, gate in gates(model):
                gate.log_alpha.fill_(0.4)
        HeadPenalty(0.05)(model).backward()
        gradients.append(model.encoder[0].attention.gate.log_alpha.grad)
    assert torch.equal(*gradients)


def test_an_update_moves_every_gate_and_a_larger_penalty_moves_them_down(
    tiny: Build, training: Training
) -> None:
    moved = []
    for strength in (0.0, 100.0):
        model = gated(tiny)
        before = [gate.log_alpha.detach().clone() for _, _, gate in gates(model)]
        groups = parameter_groups(model, 5.0)
        training(model, 1, str(strength), groups=groups, addition=HeadPenalty(strength)).run()
        pairs = zip(gates(model), before, strict=True)
        moved.append([(gate.log_alpha.detach() - old) for (_, _, gate), old in pairs])
    assert len(moved[1]) == 6 and all((each < 0).all() for each in moved[1])
    assert not all((each < 0).all() for each in moved[0])


def test_with_gates_in_the_encoder_alone_the_decoder_stays_as_it_is(
    tiny: Build, training: Training
) -> None:
    model = gated(tiny, (Kind.ENCODER,))
    freeze_decoder(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    training(model, groups=parameter_groups(model, 5.0), addition=HeadPenalty(0.01)).run()
    frozen = ("target.", "decoder.", "decoder_norm.", "logits.")
    still = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    # A softmax does not see what all scores of a query have in common: the bias of the keys.
    moved = before.keys() - still - {name for name in before if name.endswith("key.bias")}
    assert {name for name in before if name.startswith(frozen)} <= still
    assert moved == {name for name in before if not name.startswith(frozen)
                     and not name.endswith("key.bias")}  # fmt: skip
    assert "encoder.1.attention.gate.log_alpha" in moved and "source.tokens.weight" in moved


def test_what_is_trained_is_in_one_group_and_gates_have_a_rate_of_their_own(tiny: Build) -> None:
    model = gated(tiny)
    weights, of_gates = parameter_groups(model, 7.0)
    assert of_gates["factor"] == 7.0 and len(of_gates["params"]) == 6 and "factor" not in weights
    grouped = [*weights["params"], *of_gates["params"]]
    assert {id(each) for each in grouped} == {id(each) for each in model.parameters()}
    assert len(grouped) == len(list(model.parameters()))
    freeze_decoder(model)
    frozen = {id(each) for each in model.decoder[0].feed_forward.parameters()}
    assert not frozen & {id(each) for each in parameter_groups(model, 7.0)[0]["params"]}


def test_a_batch_of_many_sentences_draws_one_sample_a_block(
    tiny: Build, copies: list[EncodedPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, sample = [], HardConcrete.sample
    monkeypatch.setattr(HardConcrete, "sample", lambda self: drawn.append(1) or sample(self))
    model = gated(tiny).train()
    model(collate([copies[0]] * 5, range(5)))
    assert len(drawn) == 6
    torch.manual_seed(3)
    logits = model(collate([copies[0]] * 5, range(5)))
    assert torch.allclose(logits[0], logits[4], atol=1e-5)
    assert not torch.allclose(logits, model(collate([copies[0]] * 5, range(5))), atol=1e-3)


def test_gates_start_as_in_the_code_and_with_the_mode_of_the_model(tiny: Build) -> None:
    model = tiny(heads=8)
    gate_heads(model, tuple(Kind), CODE, seed=4)
    drawn = torch.cat([gate.log_alpha for _, _, gate in gates(model)])
    limit = math.sqrt(6 / 16)
    assert 0.9 * limit < drawn.abs().max() < limit and len(drawn.unique()) == len(drawn) == 48
    assert not any(gate.training for _, _, gate in gates(model))
    again = tiny(heads=8).train()
    gate_heads(again, tuple(Kind), CODE, seed=4)
    assert torch.equal(drawn, torch.cat([gate.log_alpha for _, _, gate in gates(again)]))
    assert all(gate.training for _, _, gate in gates(again))


def test_the_row_and_the_closed_heads_by_hand(tiny: Build) -> None:
    model = gated(tiny, (Kind.CROSS,))
    for layer, values in enumerate([[-3.0, -1.0, 1.0, 3.0], [9.0, 9.0, -9.0, 0.1]]):
        model.decoder[layer].cross.gate.log_alpha.data = torch.tensor(values)
    closed = [HeadId(Kind.CROSS, 0, 0), HeadId(Kind.CROSS, 0, 1), HeadId(Kind.CROSS, 1, 2)]
    assert list(decided_closed(model)) == closed
    row, shift = HeadPenalty(1.0).row(model), 0.33 * math.log(11)
    expected = sum(1 / (1 + math.exp(-(a + shift))) for a in (-3, -1, 1, 3, 9, 9, -9, 0.1))
    assert row == {"expected_heads": pytest.approx(expected, rel=1e-5), "kept_heads": 5.0,
                   "saturated_share": pytest.approx(5 / 8)}  # fmt: skip


def toy(strength: float, updates: int = 400) -> HardConcrete:
    """Gates of four heads of which the target holds the third alone; only gates are trained."""
    torch.manual_seed(0)
    block = Attention(16, 4, 0.0, AttentionPath.EXPLICIT).requires_grad_(requires_grad=False)
    gate = HardConcrete(torch.zeros(4), CODE)
    optimiser = torch.optim.Adam(gate.parameters(), lr=0.1)
    for _ in range(updates):
        states = torch.randn(8, 5, 16)
        block.gate = FixedGate(torch.tensor([0.0, 0.0, 1.0, 0.0]))
        wanted = block(states, states)
        block.gate = gate
        loss = functional.mse_loss(block(states, states), wanted) / wanted.var()
        (loss + strength * gate.open_probability().sum()).backward()
        optimiser.step()
        optimiser.zero_grad()
    return gate


def test_gates_saturate_and_keep_the_head_that_is_needed() -> None:
    gate = toy(0.03)
    assert gate.saturated().tolist() == [1, 1, 1, 1]
    assert gate.eval()().tolist() == [0, 0, 1, 0]


def test_too_large_a_penalty_closes_even_the_head_that_is_needed() -> None:
    assert toy(10.0).eval()().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("strength", [-0.1, math.nan, math.inf, -math.inf])
def test_what_is_no_penalty_is_refused(strength: float) -> None:
    with pytest.raises(UserError, match=r"the penalty λ is .*; give a number of 0 or more"):
        HeadPenalty(strength)


@pytest.mark.parametrize("kinds", [(Kind.CROSS,), (Kind.ENCODER, Kind.DECODER), ()])
def test_a_kind_the_model_lacks_is_said_and_nothing_is_gated(tiny: Build, kinds: tuple) -> None:
    model = tiny(decoder_layers=0)
    with pytest.raises(UserError, match="no attention to gate: the model has no"):
        gate_heads(model, kinds, CODE, seed=0)
    assert not list(gates(model))


def test_a_gate_that_is_nan_stops_the_training_and_overwrites_nothing(
    tiny: Build, training: Training
) -> None:
    model = gated(tiny)
    trainer = training(model, groups=parameter_groups(model, 1.0), addition=HeadPenalty(0.1))
    trainer.run()
    kept = {path.name: path.read_bytes() for path in trainer.folder.glob("*.safetensors")}
    assert {"state.safetensors", "best.safetensors"} <= kept.keys()
    later = training(model, 9, groups=parameter_groups(model, 1.0), addition=HeadPenalty(0.1))
    start = later._start
    later._start = lambda: (start(), model.encoder[1].attention.gate.log_alpha.data.fill_(math.nan))
    with pytest.raises(UserError, match="the loss is nan at update 5") as caught:
        later.run()
    assert "\n" not in str(caught.value)
    assert all((trainer.folder / name).read_bytes() == data for name, data in kept.items())
    with pytest.raises(UserError, match="a gate is NaN"):
        decided_closed(model)
