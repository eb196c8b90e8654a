"""Heads that share keys and values: full attention with tied heads, conversion, bad numbers."""

import pytest
import torch
from einops import repeat

from headbook.models import checkpoint
from headbook.models.attention import AttentionPath
from headbook.models.capture import Point, capture
from headbook.models.decoding import Search, translate
from headbook.models.grouped import pooled
from headbook.models.perturbation import moved
from headbook.models.transformer import HeadCounts, Transformer
from headbook.types import Kind, UserError

SHARED = (1, 2, 4)
LENGTHS = (1, 2, 9, 33, 129)


def tied(model: Transformer, tiny) -> Transformer:
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
    return full


@pytest.mark.parametrize("path", AttentionPath)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_full_attention_with_tied_heads(tiny, ragged, path, shared, length):
    grouped = tiny(key_value_heads=shared, path=path).eval()
    full = tied(grouped, tiny).eval()
    batch = ragged([length, 1, max(1, length - 1)], [max(1, length - 1), length, 1])
    mine, theirs = grouped(batch), full(batch)
    real = batch.target_mask
    assert torch.allclose(mine[real], theirs[real], atol=1e-9)


def test_neighbours_share_and_others_do_not(tiny, ragged):
    model = tiny(key_value_heads=2).eval()
    with capture(model, {Point.KEYS, Point.VALUES}) as tape:
        model(ragged([7, 5], [5, 7]))
    for kind in (Kind.DECODER, Kind.CROSS):
        for point in (Point.KEYS, Point.VALUES):
            for each in tape[kind, point]:
                assert torch.equal(each[:, 0], each[:, 1]) and torch.equal(each[:, 2], each[:, 3])
                assert not torch.allclose(each[:, 0], each[:, 2])
    encoder = tape[Kind.ENCODER, Point.KEYS][0]
    assert not torch.allclose(encoder[:, 0], encoder[:, 1])


@pytest.mark.parametrize("shared", SHARED)
def test_translating_with_a_cache_is_the_same(tiny, ragged, shared):
    model = tiny(key_value_heads=shared).eval()
    source = ragged([6, 9, 3], [2, 2, 2]).source
    with torch.no_grad():
        cached = translate(model, source, Search(beam=1))
        again = translate(tied(model, tiny).eval(), source, Search(beam=1))
    assert cached == again


@pytest.mark.parametrize("shared", SHARED)
def test_it_is_smaller_by_what_is_shared(tiny, shared):
    full, grouped = (
        sum(each.numel() for each in model.parameters())
        for model in (tiny(), tiny(key_value_heads=shared))
    )
    blocks, width, head = 4, 16, 4  # decoder and cross-attention of two layers
    assert full - grouped == blocks * 2 * (4 - shared) * head * (width + 1)


@pytest.mark.parametrize("shared", SHARED)
def test_pooling_tied_heads_changes_nothing(tiny, ragged, shared):
    grouped = tiny(key_value_heads=shared).eval()
    again = pooled(tied(grouped, tiny), shared)
    batch = ragged([9, 4], [4, 9])
    assert torch.allclose(again(batch)[batch.target_mask], grouped(batch)[batch.target_mask])


def test_pooling_is_the_mean_of_each_group(tiny):
    full = tiny().eval()
    smaller = pooled(full, 2)
    (_, _, before), (_, _, after) = (
        next(found for found in model.attentions() if found[0] is Kind.CROSS)
        for model in (full, smaller)
    )
    rows = before.value.weight.unflatten(0, (4, 4))
    assert torch.allclose(after.value.weight.unflatten(0, (2, 4))[1], (rows[2] + rows[3]) / 2)
    assert torch.equal(before.query.weight, after.query.weight)


def test_groups_are_neighbours_not_every_second_head(tiny, ragged):
    """The planted fault: heads 0 and 2 pooled instead of 0 and 1."""
    grouped = tiny(key_value_heads=2).eval()
    full = tied(grouped, tiny)
    with torch.no_grad():
        for kind, _, block in full.attentions():
            if kind is not Kind.ENCODER:
                for linear in (block.key, block.value):
                    for values in (linear.weight, linear.bias):
                        heads = values.unflatten(0, (4, 4))
                        values.copy_(heads[[0, 2, 1, 3]].flatten(0, 1))
    batch = ragged([9, 4], [4, 9])
    wrong = pooled(full, 2)(batch)[batch.target_mask]
    assert not torch.allclose(wrong, grouped(batch)[batch.target_mask])


def test_it_is_causal_and_is_kept(tiny, tmp_path):
    model = tiny(encoder_layers=0, key_value_heads=1).eval()
    ids = torch.randint(3, 13, (2, 9))
    assert moved(model, ids, 4).before == 0
    checkpoint.save_model(model, tmp_path / "model.safetensors")
    again = checkpoint.load_transformer(tmp_path / "model.safetensors").double()
    assert again.config.key_value_heads == 1
    both = (each.decode(ids, None, None) for each in (again, model))
    assert torch.allclose(*both, atol=1e-5)


@pytest.mark.parametrize("shared", [3, 0, -1, 8])
def test_numbers_that_do_not_divide_are_refused(tiny, shared):
    with pytest.raises(UserError, match=f"cannot share {shared} key-value heads"):
        tiny(key_value_heads=shared)
    with pytest.raises(UserError, match=f"cannot share {shared} key-value heads"):
        pooled(tiny(), shared)


def test_what_is_not_done_is_said(tiny):
    counts = HeadCounts((4, 4), (4, 3), (4, 4))
    with pytest.raises(UserError, match="unequal"):
        tiny(key_value_heads=2, head_counts=counts)
