"""One attention block against `torch.nn.MultiheadAttention`, its two paths against each other."""

import pytest
import torch
from torch import Tensor, nn

from headbook.models.attention import Attention, AttentionPath, KeyValues
from headbook.models.capture import Point

LADDER = (1, 2, 9, 33, 129)
WIDTH, HEADS, BATCH = 16, 4, 3
# Double precision: what is left is the order of summation.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def build(path: AttentionPath = AttentionPath.EXPLICIT, seed: int = 0) -> Attention:
    torch.manual_seed(seed)
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


def reference_of(attention: Attention) -> nn.MultiheadAttention:
    reference = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    reference.load_state_dict(packed(attention.state_dict()))
    return reference


def inputs(query: int, key: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (BATCH, query, WIDTH), (BATCH, key, WIDTH)
    queries, memory = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
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


def compare_to_torch(attention: Attention, query: int, key: int) -> None:
    """Outputs, weights and gradients equal those of `torch.nn.MultiheadAttention`."""
    queries, memory = inputs(query, key)
    real, seen = padding(key), {}
    attention.record = lambda point, value: seen.__setitem__(point, value)
    ours = attention(queries, memory, real[:, None, None, :])
    attention.record = None
    reference = reference_of(attention)
    theirs, weights = reference(
        queries, memory, memory, key_padding_mask=~real, average_attn_weights=False
    )
    torch.testing.assert_close(seen[Point.WEIGHTS], weights, **CLOSE)
    torch.testing.assert_close(ours, theirs, **CLOSE)
    mine = gradients(ours, attention, queries, memory)
    expected = gradients(theirs, reference, queries, memory)
    for name, value in (packed(mine) | {n: mine[n] for n in ("input 0", "input 1")}).items():
        torch.testing.assert_close(value, expected[name], **CLOSE)


@pytest.mark.parametrize("key", LADDER)
@pytest.mark.parametrize("query", LADDER)
def test_equals_torch_multihead_attention(query: int, key: int) -> None:
    compare_to_torch(build(), query, key)


@pytest.mark.parametrize("masked", ["no mask", "padding", "causal", "causal and padding"])
@pytest.mark.parametrize("length", LADDER)
def test_fused_path_equals_explicit_path(length: int, masked: str) -> None:
    causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    padded = padding(length)[:, None, None, :]
    masks = {"no mask": None, "padding": padded, "causal": causal}
    mask = masks.get(masked, causal & padded)
    results = []
    for path in (AttentionPath.EXPLICIT, AttentionPath.FUSED):
        attention = build(path)
        queries, memory = inputs(length, length)
        output = attention(queries, memory, mask)
        results.append({"output": output} | gradients(output, attention, queries, memory))
    for name, value in results[0].items():
        torch.testing.assert_close(value, results[1][name], **CLOSE, msg=name)


def test_auto_path_is_explicit_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the fused kernel was called")

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", refuse)
    queries, memory = inputs(3, 4)
    build(AttentionPath.AUTO)(queries, memory)
    with pytest.raises(AssertionError, match="the fused kernel was called"):
        build(AttentionPath.FUSED)(queries, memory)


def test_known_answer_one_head_of_two_keys() -> None:
    """With identity projections, width 1 and query q, the weights are softmax(q·k)."""
    attention = Attention(1, 1, 0.0, AttentionPath.EXPLICIT).double()
    for part in (attention.query, attention.key, attention.value, attention.output):
        nn.init.ones_(part.weight)
        nn.init.zeros_(part.bias)
    memory = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    output = attention(torch.tensor([[[2.0]]], dtype=torch.float64), memory)
    torch.testing.assert_close(output.squeeze(), torch.tensor(2.0).double().sigmoid(), **CLOSE)


def test_cached_self_attention_appends_and_cross_attention_keeps() -> None:
    attention, (states, memory) = build(), inputs(4, 5)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    own, cross = KeyValues(), KeyValues()
    step_own, step_cross = [], []
    for position in range(4):
        newest = states[:, position : position + 1]
        step_own.append(attention(newest, newest, None, own))
        step_cross.append(attention(newest, memory if position == 0 else newest * 0, None, cross))
    assert own.keys.shape[2] == 4
    assert cross.keys.shape[2] == 5
    whole = attention(states, states, causal)
    torch.testing.assert_close(torch.cat(step_own, 1), whole, **CLOSE)
    torch.testing.assert_close(torch.cat(step_cross, 1), attention(states, memory), **CLOSE)


def test_selected_rows_of_a_cache_keep_keys_and_values_together() -> None:
    attention, (states, _) = build(), inputs(2, 2)
    cache = KeyValues()
    attention(states, states, None, cache)
    keys, values = cache.keys, cache.values
    cache.select(torch.tensor([2, 0, 0]))
    assert torch.equal(cache.keys, keys[[2, 0, 0]])
    assert torch.equal(cache.values, values[[2, 0, 0]])


EXPLICIT = Attention._explicit
FAULTS = {
    "query and key transposed": lambda self, query, key, value, mask: EXPLICIT(
        self, key, query, value, mask
    ),
    "mask dropped": lambda self, query, key, value, mask: EXPLICIT(self, query, key, value, None),
    "scores not divided by the root of the dimension": lambda self, query, key, value, mask: (
        EXPLICIT(self, query * query.shape[-1] ** 0.5, key, value, mask)
    ),
    "heads in reverse order": lambda self, query, key, value, mask: EXPLICIT(
        self, query, key, value, mask
    ).flip(1),
    "values of the keys": lambda self, query, key, value, mask: EXPLICIT(
        self, query, key, key, mask
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_to_torch(build(), 9, 9)
    monkeypatch.setattr(Attention, "_explicit", FAULTS[fault])
    with pytest.raises(AssertionError, match="not close"):
        compare_to_torch(build(), 9, 9)
