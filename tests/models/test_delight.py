"""DeLighT's decoder: the group linear layers, the shape of a block, and that it is causal."""

import torch
from blocks import TINY, ragged
from einops import rearrange

from headbook.models.delight import (
    DelightTransformer,
    ExpandReduce,
    GroupLinear,
    block_shape,
    group_counts,
)
from headbook.models.perturbation import moved
from headbook.models.transformer import NormPlacement, TransformerConfig
from headbook.types import Kind


def a_model() -> DelightTransformer:
    torch.manual_seed(0)
    shape = TINY | {"encoder_layers": 0, "decoder_layers": 3, "width": 32, "heads": 1}
    config = TransformerConfig(**shape, norm=NormPlacement.POST)
    return DelightTransformer(config).double().eval()


def test_a_group_linear_layer_is_a_block_diagonal_matrix_and_a_shuffle():
    layer = GroupLinear(8, 16, 2, 0.0).double()
    inputs = torch.randn(2, 5, 8, dtype=torch.float64)
    mapped = rearrange(inputs @ torch.block_diag(*layer.weight), "b t (g d) -> b t g d", g=2)
    normed = torch.nn.functional.layer_norm(mapped, mapped.shape[-1:])
    expected = rearrange(torch.nn.functional.gelu(normed), "b t g d -> b t (d g)")
    assert torch.allclose(layer(inputs), expected)


def test_groups_double_to_the_middle_and_blocks_grow_deeper_and_wider():
    assert group_counts(4) == [2, 4, 4, 2]
    assert group_counts(5) == [2, 4, 8, 4, 2]
    assert group_counts(8) == [2, 4, 8, 8, 8, 8, 4, 2]
    shapes = [block_shape(block, 5) for block in range(5)]
    assert shapes == [(4, 2.0), (5, 2.25), (6, 2.5), (7, 2.75), (8, 3.0)]
    assert block_shape(0, 1) == (4, 2.0)


def test_a_transformation_widens_to_the_multiplier_and_ends_at_half():
    """The input reaches every layer: with the first cut off the later ones still see it."""
    made = ExpandReduce(64, 5, 2.0, 0.0)
    assert [len(x.weight) * x.weight.shape[2] for x in made.layers] == [32, 80, 128, 80, 32]
    assert made(torch.randn(2, 3, 64)).shape == (2, 3, 32)
    torch.nn.init.zeros_(made.layers[0].norm.weight)
    assert not torch.allclose(made(torch.randn(1, 64)), made(torch.randn(1, 64)))


def test_it_is_causal_and_decodes_a_step_at_a_time_as_all_at_once():
    model, tokens = a_model(), ragged([9, 9], [9, 9]).target_out
    found = moved(model, tokens, 4)
    assert found["before"] == 0 and found["at"] > 0 and found["after"] > 0
    cache = model.empty_cache()
    steps = [model.decode(tokens[:, [at]], None, None, cache) for at in range(9)]
    assert torch.allclose(torch.cat(steps, 1), model.decode(tokens, None, None))


def test_its_one_head_is_half_as_wide_as_the_model_and_every_weight_learns():
    model = a_model().train()
    (kind, _, block), *others = model.attentions()
    assert (kind, block.heads, block.query.weight.shape) == (Kind.DECODER, 1, (16, 16))
    assert block.output.weight.shape == (32, 16) and len(others) == 2
    model.logits(
        model.decode(ragged([9, 9], [9, 9]).target_out, None, None)
    ).square().sum().backward()
    assert not [name for name, each in model.decoder.named_parameters() if each.grad is None]
