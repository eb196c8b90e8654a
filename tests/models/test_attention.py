"""One attention block against `torch.nn.MultiheadAttention`, its two paths against each other."""

import pytest
import torch
from torch import Tensor, nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.capture import Point

WIDTH, HEADS, BATCH = 16, 4, 3
# Double precision: what is left is the order of summation.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def build(path: AttentionPath = AttentionPath.EXPLICIT) -> Attention:
    torch.manual_seed(0)
    attention = Attention(WIDTH, HEADS, 0.0, path).double()
    for parameter in attention.parameters():
        nn.init.normal_(parameter, std=0.5)
    return attention


def packed(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters, or their gradients, under the names of `torch.nn.MultiheadAttention`."""
    parts = ("query", "key", "value")
    return {
        "in_proj_weight": torch.cat([values[f"{part}.weight"] for part in parts]),
        "in_proj_bias": torch.cat([values[f"{part}.bias"] for part in parts]),
        "out_proj.weight": values["output.weight"],
        "out_proj.bias": values["output.bias"],
    }


def inputs(query: int, key: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(1)
    lengths = (query, key)
    queries, memory = (
        torch.randn(BATCH, n, WIDTH, generator=chance, dtype=torch.float64) for n in lengths
    )
    return queries.requires_grad_(), memory.requires_grad_()


def padding(key: int) -> Tensor:
    """True at real keys; rows of different lengths, the first without padding."""
    lengths = torch.tensor([key, max(1, key - 1), max(1, key // 2)])
    return torch.arange(key) < lengths[:, None]


def gradients(output: Tensor, module: nn.Module, *leaves: Tensor) -> dict[str, Tensor]:
    """Gradients of a loss that weighs every output element differently."""
    loss = (output * torch.arange(output.numel(), dtype=output.dtype).sin().view_as(output)).sum()
    named = dict(module.named_parameters()) | {f"input {n}": leaf for n, leaf in enumerate(leaves)}
    return dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))


@pytest.mark.parametrize(("query", "key"), [(1, 1), (9, 33), (33, 2)])
def test_equals_torch_multihead_attention(query: int, key: int) -> None:
    """Outputs, weights and gradients."""
    attention, (queries, memory), real, seen = build(), inputs(query, key), padding(key), {}
    reference = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    reference.load_state_dict(packed(attention.state_dict()))
    attention.record = seen.__setitem__
    ours = attention(queries, memory, real[:, None, None, :])
    theirs, weights = reference(
        queries, memory, memory, key_padding_mask=~real, average_attn_weights=False
    )
    torch.testing.assert_close(seen[Point.WEIGHTS], weights, **CLOSE)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    mine = gradients(ours, attention, queries, memory)
    expected = gradients(theirs, reference, queries, memory)
    for name, value in (packed(mine) | {n: mine[n] for n in ("input 0", "input 1")}).items():
        torch.testing.assert_close(value, expected[name], **CLOSE)


@pytest.mark.parametrize("masked", ["no mask", "padding", "causal and padding"])
def test_fused_path_equals_explicit_path(masked: str) -> None:
    causal = torch.ones(33, 33, dtype=torch.bool).tril()[None, None]
    padded = padding(33)[:, None, None, :]
    mask = {"no mask": None, "padding": padded}.get(masked, causal & padded)
    results = []
    for path in (AttentionPath.EXPLICIT, AttentionPath.FUSED):
        attention = build(path)
        queries, memory = inputs(33, 33)
        output = attention(queries, memory, mask)
        results.append({"output": output} | gradients(output, attention, queries, memory))
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], **CLOSE, msg=name)


def test_cached_self_attention_appends_and_cross_attention_keeps() -> None:
    attention, (states, memory) = build(), inputs(4, 5)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    own, cross = KeyValues(), KeyValues()
    step_own, step_cross = [], []
    for position in range(4):
        newest = states[:, position : position + 1]
        step_own.append(attention(newest, newest, None, own))
        step_cross.append(attention(newest, memory if position == 0 else newest * 0, None, cross))
    whole = attention(states, states, causal)
    torch.testing.assert_close(torch.cat(step_own, 1), whole, **CLOSE)
    torch.testing.assert_close(torch.cat(step_cross, 1), attention(states, memory), **CLOSE)
    keys, values = own.keys, own.values
    own.select(torch.tensor([2, 0, 0]))
    assert torch.equal(own.keys, keys[[2, 0, 0]]) and torch.equal(own.values, values[[2, 0, 0]])
