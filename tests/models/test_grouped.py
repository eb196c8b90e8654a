"""Heads that share keys and values: full attention with tied heads, conversion, bad numbers."""

import pytest
import torch
from blocks import ragged, tiny
from einops import repeat
from refusing import refuses

from headbook.models.attention import AttentionPath
from headbook.models.decoding import Search, translate
from headbook.models.grouped import pooled
from headbook.models.transformer import HeadCounts, Transformer
from headbook.types import Kind


def tied(model: Transformer) -> Transformer:
    """Full attention whose heads are copies of the key-value heads they would share."""
    full = tiny(heads=4)
    parameters = dict(model.state_dict())
    for name, values in full.state_dict().items():
        if parameters[name].shape != values.shape:
            shared = model.config.key_value_heads
            parameters[name] = repeat(
                parameters[name], "(group dim) ... -> (group member dim) ...", group=shared,
                member=4 // shared,
            )  # fmt: skip
    full.load_state_dict(parameters)
    return full.eval()


@pytest.mark.parametrize(
    ("shared", "path"), [(1, AttentionPath.EXPLICIT), (2, AttentionPath.FUSED)]
)
def test_it_is_full_attention_with_tied_heads(path, shared):
    """Which neighbours share; and pooled again it is what it was. With a cache too."""
    grouped = tiny(key_value_heads=shared, path=path).eval()
    full, batch = tied(grouped), ragged([33, 1, 9], [9, 33, 1])
    wanted = full(batch)[batch.target_mask]
    assert torch.allclose(grouped(batch)[batch.target_mask], wanted, atol=1e-9)
    assert torch.allclose(pooled(full, shared)(batch)[batch.target_mask], wanted, atol=1e-9)
    with torch.no_grad():
        cached, again = (translate(x, batch.source, Search(beam=1)) for x in (grouped, full))
    assert cached == again


def test_pooling_is_the_mean_of_each_group():
    full = tiny().eval()
    (_, _, before), (_, _, after) = (
        next(found for found in model.attentions() if found[0] is Kind.CROSS)
        for model in (full, pooled(full, 2))
    )
    rows = before.value.weight.unflatten(0, (4, 4))
    assert torch.allclose(after.value.weight.unflatten(0, (2, 4))[1], (rows[2] + rows[3]) / 2)
    assert torch.equal(before.query.weight, after.query.weight)


def test_numbers_that_do_not_divide_are_refused():
    refuses(lambda: pooled(tiny(), 3), "cannot share 3 key-value heads")
    counts = HeadCounts((4, 4), (4, 3), (4, 4))
    refuses(lambda: tiny(key_value_heads=2, head_counts=counts), "unequal")
