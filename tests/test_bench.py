"""The benchmark compares like with like; whether its ratios are good is for the machine."""

import re

import pytest
import torch

from headbook.bench import Sizes, TorchTransformer, bench
from headbook.models.transformer import Transformer
from headbook.text.batches import EOS, collate
from headbook.timing import interleaved

pytestmark = pytest.mark.slow

TINY = Sizes(layers=1, heads=2, vocabulary=300, tokens=64, sentences=8)

OURS = {
    r"layers\.(en|de)coder\.norm": r"\1coder_norm",
    r"layers\.(en|de)coder\.layers": r"\1coder",
    "self_attn": "attention",
    "multihead_attn": "cross",
    "out_proj": "output",
    "linear1": "feed_forward.inner",
    "linear2": "feed_forward.outer",
    "norm1": "around_attention.norm",
    r"(encoder\.\d+)\.norm2": r"\1.around_feed_forward.norm",
    r"(decoder\.\d+)\.norm2": r"\1.around_cross.norm",
    "norm3": "around_feed_forward.norm",
}
"""Our names of torch's parameters."""


def under_our_names(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Torch's weights, queries, keys and values apart."""
    ours = {}
    for name, weight in state.items():
        for theirs, here in OURS.items():
            name = re.sub(theirs, here, name)
        stem, joined, last = name.partition("in_proj_")
        parts = zip(("query", "key", "value"), weight.chunk(3), strict=True) if joined else ()
        ours |= {f"{stem}{part}.{last}": rows for part, rows in parts} or {name: weight}
    return ours


def test_torchs_is_the_same_model():
    """The same logits once ours has the weights of torch's."""
    ours, torchs = (kind(TINY.model(16)).eval() for kind in (Transformer, TorchTransformer))
    ours.load_state_dict(under_our_names(torchs.state_dict()))
    batch = collate([([5, 6, 7, EOS], [8, 9, EOS]), ([5, EOS], [8, 9, 10, 11, EOS])], [0, 1])
    with torch.no_grad():
        found, expected = (model(batch)[batch.target_mask] for model in (ours, torchs))
    assert torch.allclose(found, expected, atol=1e-5)


def test_rounds_alternate_and_the_first_is_left_out():
    order = []

    def work(name: str):
        return lambda number: order.append((name, number)) or float(number)

    taken = interleaved({"a": work("a"), "b": work("b")}, 2, "test")
    assert order == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert taken == {"a": [1.0, 2.0], "b": [1.0, 2.0]}


def test_a_row_per_ratio_and_width():
    table = bench(1, (16,), TINY)
    assert len(table) == 4 and (table["median"] > 0).all()
