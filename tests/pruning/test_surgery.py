"""Surgery: the smaller model is the gated one, to rounding, and an ordinary model otherwise."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headbook.corpora.batches import EOS, Batch, collate, pad
from headbook.models.decoding import Search, translate
from headbook.models.gates import FixedGate, all_heads, close_heads, closed
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.pruning import surgery
from headbook.pruning.gating import gate_heads, gates
from headbook.pruning.hard_concrete import CONSTANTS, Decision, Source
from headbook.pruning.surgery import take_out
from headbook.training import checkpoint
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


@pytest.mark.parametrize(
    "shape",
    [{"decoder_layers": 0}, {"encoder_layers": 0}, {"norm": NormPlacement.POST}, {"heads": 16}],
    ids=str,
)
def test_other_shapes_too(tiny: Build, shape: dict) -> None:
    model = tiny(**shape).double()
    close_heads(model, [head for head in all_heads(model) if head.head % 2])
    assert_same(model, batch_of([3, 9], [7, 2]))


HeadSets = st.sets(st.sampled_from(HEADS))


@settings(max_examples=15)
@given(heads=HeadSets)
def test_any_set_of_heads(heads: set[HeadId]) -> None:
    torch.manual_seed(0)
    shape = {"width": 8, "feed_forward": 8, "heads": 4, "dropout": 0.5}
    model = Transformer(TransformerConfig(12, 12, 2, 2, **shape)).double().eval()
    close_heads(model, heads)
    assert_same(model, batch_of([3, 2], [2, 4]))


@pytest.mark.parametrize("name", ["others in every block", "a block of each kind", "all"])
@pytest.mark.parametrize("beam", [1, 3])
def test_cached_decoding_is_the_same(tiny: Build, name: str, beam: int) -> None:
    model = gated(tiny, SETS[name])
    source = pad([[5, 4, 9, EOS], [3, EOS], [8, 8, 7, 6, 5, EOS]])
    search = Search(beam=beam)
    smaller = take_out(model)
    assert translate(smaller, source, search) == translate(model, source, search)
    cache, batch = smaller.empty_cache(), batch_of([5, 2], [6, 6])
    memory, mask = smaller.encode(batch.source)
    steps = [
        smaller.decode(batch.target_in[:, at : at + 1], memory, mask, cache) for at in range(6)
    ]
    torch.testing.assert_close(smaller.logits(torch.cat(steps, 1)), model(batch), **CLOSE)


def test_a_gate_between_nought_and_one_is_multiplied_in(tiny: Build) -> None:
    model = tiny().double()
    for number, (_, _, block) in enumerate(model.attentions()):
        values = torch.tensor([0.0, 0.25, 1.0, -1.5 + number], dtype=torch.float64)
        block.gate = FixedGate(values)
    smaller = assert_same(model, batch_of([3, 9], [7, 2]))
    assert all(block.heads == 3 for _, _, block in smaller.attentions())


@pytest.mark.parametrize("decision", list(Decision))
def test_learned_gates_are_taken_as_they_are_decided(tiny: Build, decision: Decision) -> None:
    model = tiny().double()
    gate_heads(model, tuple(Kind), CONSTANTS[Source.CODE], 0, decision)
    for _, _, gate in gates(model):
        gate.log_alpha.data = torch.tensor([-3.0, -1.0, 1.0, 3.0], dtype=torch.float64)
    smaller = assert_same(model.eval(), batch_of([3, 9], [7, 2]))
    left = 2 if decision is Decision.LIKELIER else 3
    assert all(block.heads == left for _, _, block in smaller.attentions())
    assert not list(gates(smaller)) and not smaller.training


def test_a_model_in_training_is_cut_at_its_decision_and_not_at_a_sample(tiny: Build) -> None:
    model = tiny(dropout=0.5).double()
    gate_heads(model, tuple(Kind), CONSTANTS[Source.CODE], 0)
    model.train()
    assert_same(model, batch_of([3, 9], [7, 2]))


def test_twice_is_as_good_as_at_once(tiny: Build) -> None:
    model, batch = gated(tiny, SETS["one"]), batch_of([3, 9], [7, 2])
    once = take_out(model)
    close_heads(once, [HeadId(Kind.CROSS, 1, 2), HeadId(Kind.ENCODER, 0, 0)])
    close_heads(model, [*SETS["one"], HeadId(Kind.CROSS, 1, 3), HeadId(Kind.ENCODER, 0, 0)])
    torch.testing.assert_close(take_out(once)(batch), model(batch), **CLOSE)
    assert take_out(take_out(once)).config == take_out(model).config


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


@pytest.mark.parametrize("name", SETS)
def test_a_smaller_model_is_saved_and_loaded_as_any_other(
    tiny: Build, tmp_path: Path, name: str
) -> None:
    model, path = tiny(), tmp_path / "model.safetensors"
    close_heads(model, SETS[name])
    smaller, batch = take_out(model), batch_of([3, 9], [7, 2])
    checkpoint.save_model(smaller, path)
    loaded = checkpoint.load_transformer(path)
    assert loaded.config == smaller.config and torch.equal(loaded(batch), smaller(batch))


def test_a_smaller_model_can_be_trained_and_closed_further(tiny: Build) -> None:
    smaller, batch = take_out(gated(tiny, SETS["a block of each kind"])), batch_of([3], [4])
    before = smaller(batch)
    with closed(smaller, [HeadId(Kind.ENCODER, 1, 0)]):
        assert not torch.allclose(smaller(batch), before)
    smaller.train()(batch).sum().backward()
    assert smaller.encoder[1].attention.query.weight.grad.abs().sum() > 0


def test_what_is_cut_is_left_as_it_was(tiny: Build) -> None:
    model, batch = gated(tiny), batch_of([3, 9], [7, 2])
    before = model(batch)
    smaller = take_out(model)
    with torch.no_grad():
        for parameter in smaller.parameters():
            parameter.zero_()
    assert torch.equal(model(batch), before)
    assert len(all_heads(model)) == len(HEADS)


def test_a_gate_that_is_nan_is_said_and_nothing_is_taken_out(tiny: Build) -> None:
    model = gated(tiny)
    model.decoder[0].cross.gate.multipliers[1] = math.nan
    with pytest.raises(UserError, match="a gate is NaN: nothing was taken out"):
        take_out(model)


KEPT = surgery._kept
MULTIPLIERS = surgery._multipliers


def _inverted(block: torch.nn.Module, multipliers: Tensor, name: str) -> dict[str, Tensor]:
    return KEPT(block, multipliers.flip(0), name)


def _unscaled(block: torch.nn.Module, multipliers: Tensor, name: str) -> dict[str, Tensor]:
    return KEPT(block, (multipliers != 0).to(multipliers), name)


def _without_bias(block: torch.nn.Module, multipliers: Tensor, name: str) -> dict[str, Tensor]:
    return KEPT(block, multipliers, name) | {f"{name}.output.bias": torch.zeros(16)}


@pytest.mark.parametrize("fault", [_inverted, _unscaled, _without_bias])
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
