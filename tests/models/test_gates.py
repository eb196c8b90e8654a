"""Gates: what is multiplied, where, and that they come off again."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.capture import Point, capture
from headbook.models.gates import FixedGate, all_heads, close_heads, closed, open_all
from headbook.models.transformer import HeadCounts, Transformer
from headbook.text.batches import Batch
from headbook.types import HeadId, Kind, UserError

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
Build = Callable[..., Transformer]
Ragged = Callable[..., Batch]


def block_of(gate: nn.Module | None, dropout: float = 0.0, path: str = "explicit") -> Attention:
    torch.manual_seed(0)
    block = Attention(16, 4, dropout, AttentionPath(path)).double()
    nn.init.normal_(block.output.bias)
    block.gate = gate
    return block


def states(seed: int = 1) -> Tensor:
    return torch.randn(3, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_a_gate_weighs_each_heads_share_of_the_output(path: str) -> None:
    """Σ_h g_h · context_h · W_O[h] + b, written out head by head."""
    weights = torch.tensor([1.0, 0.0, 0.25, -2.0], dtype=torch.float64)
    seen: dict[Point, Tensor] = {}
    plain = block_of(None)
    plain.record = seen.__setitem__
    plain(states(), states())
    expected = plain.output.bias.clone()
    for head in range(4):
        columns = plain.output.weight[:, 4 * head : 4 * head + 4]
        expected = expected + weights[head] * seen[Point.CONTEXT][:, head] @ columns.T
    gated = block_of(FixedGate(weights), path=path)
    torch.testing.assert_close(gated(states(), states()), expected, **CLOSE)


def test_the_gate_comes_behind_the_dropout_of_weights() -> None:
    """With the same dropout masks a gate of 3 gives three times what the block adds to its bias."""
    outputs = []
    for gate in (None, FixedGate(torch.full((4,), 3.0, dtype=torch.float64))):
        block = block_of(gate, dropout=0.5).train()
        torch.manual_seed(7)
        outputs.append(block(states(), states()) - block.output.bias)
    torch.testing.assert_close(outputs[1], 3 * outputs[0], **CLOSE)
    assert not torch.allclose(outputs[0], block_of(None)(states(), states()))


def test_what_is_recorded_is_what_the_head_computed() -> None:
    seen: list[dict[Point, Tensor]] = []
    for gate in (None, FixedGate(torch.zeros(4, dtype=torch.float64))):
        block = block_of(gate)
        seen.append({})
        block.record = seen[-1].__setitem__
        output = block(states(), states())
    assert torch.equal(seen[0][Point.CONTEXT], seen[1][Point.CONTEXT])
    assert torch.equal(output, block.output.bias.expand_as(output))


def test_a_gate_is_asked_once_a_batch() -> None:
    """One sample for all sentences (section 6.1): equal sentences give equal rows."""
    calls = []

    class Drawn(nn.Module):
        def forward(self) -> Tensor:
            calls.append(1)
            return torch.rand(4, dtype=torch.float64)

    block = block_of(Drawn())
    twice = states()[:1].expand(3, 5, 16)
    output = block(twice, twice)
    assert len(calls) == 1
    torch.testing.assert_close(output[0], output[2], **CLOSE)
    assert not torch.allclose(output, block(twice, twice))


def test_heads_are_listed_block_by_block(tiny: Build) -> None:
    counts = HeadCounts((1, 0), (0, 2), (3, 1))
    listed = all_heads(tiny(head_counts=counts))
    assert [head.label for head in listed] == [
        "L1H1", "cross L1H1", "cross L1H2", "cross L1H3",
        "decoder L2H1", "decoder L2H2", "cross L2H1",
    ]  # fmt: skip
    assert len(all_heads(tiny())) == 3 * 2 * 4


def test_closed_heads_change_the_logits_and_come_back(tiny: Build, ragged: Ragged) -> None:
    model, batch = tiny(), ragged([3, 5], [4, 2])
    whole = model(batch)
    heads = [HeadId(Kind.CROSS, 1, 2), HeadId(Kind.ENCODER, 0, 0)]
    with closed(model, heads):
        without = model(batch)
    assert not torch.allclose(whole, without)
    assert torch.equal(model(batch), whole)
    close_heads(model, heads)
    assert torch.equal(model(batch), without)
    gates = {(kind, layer): block.gate().tolist() for kind, layer, block in model.attentions()}
    assert gates[Kind.CROSS, 1] == [1, 1, 0, 1] and gates[Kind.ENCODER, 0] == [0, 1, 1, 1]
    assert sum(map(sum, gates.values())) == 22
    close_heads(model, [])
    assert torch.equal(model(batch), whole)
    open_all(model)
    assert all(block.gate is None for _, _, block in model.attentions())


def test_a_head_is_closed_where_its_column_of_w_o_is_nought(tiny: Build, ragged: Ragged) -> None:
    batch, model, cut = ragged([3, 9], [4, 2]), tiny(), tiny()
    with torch.no_grad():
        cut.decoder[1].cross.output.weight[:, 4:8] = 0
    with closed(model, [HeadId(Kind.CROSS, 1, 1)]):
        torch.testing.assert_close(model(batch), cut(batch), **CLOSE)


def test_gates_come_back_after_a_failure(tiny: Build) -> None:
    model = tiny()
    close_heads(model, [HeadId(Kind.DECODER, 0, 1)])
    kept = [block.gate for _, _, block in model.attentions()]
    with pytest.raises(ZeroDivisionError), closed(model, [HeadId(Kind.ENCODER, 0, 0)]):
        raise ZeroDivisionError
    assert [block.gate for _, _, block in model.attentions()] == kept


@pytest.mark.parametrize("head", [(Kind.ENCODER, 2, 0), (Kind.DECODER, 0, 4), (Kind.CROSS, -1, 0)])
def test_an_unknown_head_is_said_and_nothing_is_closed(tiny: Build, head: tuple) -> None:
    model, wrong = tiny(), HeadId(*head)
    with pytest.raises(UserError, match=f"no head {wrong.label}; it has encoder") as caught:
        close_heads(model, [HeadId(Kind.ENCODER, 0, 0), wrong])
    assert "\n" not in str(caught.value)
    assert all(block.gate is None for _, _, block in model.attentions())


def test_an_unknown_kind_is_said(tiny: Build) -> None:
    model = tiny(decoder_layers=0)
    with pytest.raises(UserError, match="no head cross L1H1"):
        close_heads(model, [HeadId(Kind.CROSS, 0, 0)])


def test_a_block_without_heads_adds_its_bias_and_looks_at_nothing() -> None:
    block = Attention(16, 0, 0.5, AttentionPath.AUTO, head_width=4).double()
    nn.init.normal_(block.output.bias)
    cache = KeyValues()
    output = block(states(), states(), None, cache)
    assert torch.equal(output, block.output.bias.expand(3, 5, 16))
    cache.select(torch.tensor([0, 0]))
    assert cache.keys is None
    output.sum().backward()
    assert torch.equal(block.output.bias.grad, torch.full((16,), 15.0, dtype=torch.float64))


def test_fixed_gates_are_saved_and_not_trained(tiny: Build) -> None:
    model = tiny()
    close_heads(model, [HeadId(Kind.ENCODER, 0, 3)])
    name = "encoder.0.attention.gate.multipliers"
    assert model.state_dict()[name].tolist() == [1, 1, 1, 0]
    assert name not in dict(model.named_parameters())


def test_recording_a_gated_model_gives_all_its_heads(tiny: Build, ragged: Ragged) -> None:
    model, batch = tiny(), ragged([3, 5], [4, 2])
    with closed(model, [HeadId(Kind.ENCODER, 1, 3)]), capture(model, {Point.WEIGHTS}) as tape:
        model(batch)
    assert [each.shape[1] for each in tape[Kind.ENCODER, Point.WEIGHTS]] == [4, 4]
