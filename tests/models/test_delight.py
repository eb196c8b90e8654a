"""DeLighT's decoder: the group linear layers, the shape of a block, and that it is causal."""

import torch
from blocks import TINY, ragged
from einops import rearrange

from headbook.models.delight import (
    DelightTransformer,
    GroupLinear,
    block_shape,
    group_counts,
)
from headbook.models.perturbation import moved
from headbook.models.transformer import NormPlacement, TransformerConfig


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
    assert group_counts(5) == [2, 4, 8, 4, 2]
    assert group_counts(8) == [2, 4, 8, 8, 8, 8, 4, 2]
    shapes = [block_shape(block, 5) for block in range(5)]
    assert shapes == [(4, 2.0), (5, 2.25), (6, 2.5), (7, 2.75), (8, 3.0)]


def test_it_is_causal_and_decodes_a_step_at_a_time_as_all_at_once():
    model, tokens = a_model(), ragged([9, 9], [9, 9]).target_out
    found = moved(model, tokens, 4)
    assert found["before"] == 0 and found["at"] > 0 and found["after"] > 0
    cache = model.empty_cache()
    steps = [model.decode(tokens[:, [at]], None, None, cache) for at in range(9)]
    assert torch.allclose(torch.cat(steps, 1), model.decode(tokens, None, None))
