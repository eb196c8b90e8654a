"""Gates: what is multiplied, where, and that they come off again."""

from collections.abc import Callable

import pytest
import torch
from blocks import ragged, tiny
from torch import Tensor, nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.capture import Point
from headbook.models.gates import FixedGate, all_heads, close_heads, closed
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


def states() -> Tensor:
    return torch.randn(3, 5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("path", ["explicit", "fused"])
def test_a_gate_weighs_each_heads_share_of_the_output(path: str) -> None:
    """Σ_h g_h · context_h · W_O[h] + b, head by head; what is recorded is what each computed."""
    weights = torch.tensor([1.0, 0.0, 0.25, -2.0], dtype=torch.float64)
    seen: tuple[dict[Point, Tensor], ...] = {}, {}
    plain, gated = block_of(None), block_of(FixedGate(weights), path=path)
    plain.record = seen[0].__setitem__
    plain(states(), states())
    expected = plain.output.bias.clone()
    for head in range(4):
        columns = plain.output.weight[:, 4 * head : 4 * head + 4]
        expected = expected + weights[head] * seen[0][Point.CONTEXT][:, head] @ columns.T
    torch.testing.assert_close(gated(states(), states()), expected, **CLOSE)
    gated.record = seen[1].__setitem__
    gated(states(), states())
    assert torch.equal(seen[0][Point.CONTEXT], seen[1][Point.CONTEXT])


def test_heads_are_listed_block_by_block() -> None:
    counts = HeadCounts((1, 0), (0, 2), (3, 1))
    listed = all_heads(tiny(head_counts=counts))
    assert [head.label for head in listed] == [
        "L1H1", "cross L1H1", "cross L1H2", "cross L1H3",
        "decoder L2H1", "decoder L2H2", "cross L2H1",
    ]  # fmt: skip


def test_closed_heads_change_the_logits_and_come_back() -> None:
    """A head is closed where its columns of W_O are nought; after a failure gates come back."""
    model, cut, batch = tiny(), tiny(), ragged([3, 5], [4, 2])
    whole = model(batch)
    with torch.no_grad():
        cut.decoder[1].cross.output.weight[:, 8:12] = 0
        cut.encoder[0].attention.output.weight[:, :4] = 0
    heads = [HeadId(Kind.CROSS, 1, 2), HeadId(Kind.ENCODER, 0, 0)]
    with pytest.raises(ZeroDivisionError), closed(model, heads):
        torch.testing.assert_close(model(batch), cut(batch), **CLOSE)
        raise ZeroDivisionError
    assert torch.equal(model(batch), whole)
    close_heads(model, heads)
    gates = {(kind, layer): block.gate().tolist() for kind, layer, block in model.attentions()}
    assert gates[Kind.CROSS, 1] == [1, 1, 0, 1] and gates[Kind.ENCODER, 0] == [0, 1, 1, 1]
    assert sum(map(sum, gates.values())) == 22
    assert model.state_dict()["encoder.0.attention.gate.multipliers"].tolist() == [0, 1, 1, 1]
    assert not [name for name, _ in model.named_parameters() if "gate" in name]
    close_heads(model, [])
    assert torch.equal(model(batch), whole)


@pytest.mark.parametrize("head", [(Kind.ENCODER, 2, 0), (Kind.DECODER, 0, 4)])
def test_an_unknown_head_is_said_and_nothing_is_closed(head: tuple) -> None:
    model, wrong = tiny(), HeadId(*head)
    with pytest.raises(UserError, match=f"no head {wrong.label}; it has encoder"):
        close_heads(model, [HeadId(Kind.ENCODER, 0, 0), wrong])
    assert all(block.gate is None for _, _, block in model.attentions())


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
