"""DeLighT's decoder: the group linear layers, the shape of a block, and that it is causal."""

from itertools import pairwise

import pytest
import torch
from einops import rearrange

from headbook.models.delight import (
    BlockScaling,
    DelightTransformer,
    ExpandReduce,
    GroupLinear,
    group_counts,
)
from headbook.models.perturbation import moved
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.types import Kind, UserError

LENGTHS = (3, 9, 33, 129)
SHAPE = {
    "source_vocabulary": 13, "target_vocabulary": 13, "encoder_layers": 0, "decoder_layers": 3,
    "width": 32, "feed_forward": 64, "heads": 1, "dropout": 0.0, "norm": NormPlacement.POST,
}  # fmt: skip


def a_model(**changed: object) -> DelightTransformer:
    torch.manual_seed(0)
    model = DelightTransformer(TransformerConfig(**SHAPE | changed), BlockScaling())
    return model.double().eval()


def ids(length: int) -> torch.Tensor:
    return torch.randint(3, 13, (2, length), generator=torch.Generator().manual_seed(length))


def dense(layer: GroupLinear) -> torch.Tensor:
    """The same map as one matrix, [outputs, inputs], zero between groups."""
    return torch.block_diag(*layer.weight).T


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_group_linear_layer_is_a_block_diagonal_matrix(groups: int):
    layer = GroupLinear(8, 16, groups, 0.0).double()
    inputs = torch.randn(2, 5, 8, dtype=torch.float64)
    mapped = rearrange(inputs @ dense(layer).T, "b t (g d) -> b t g d", g=groups)
    normed = torch.nn.functional.layer_norm(mapped, mapped.shape[-1:])
    expected = rearrange(torch.nn.functional.gelu(normed), "b t g d -> b t (d g)")
    assert torch.allclose(layer(inputs), expected)


def test_the_shuffle_deals_every_group_out_to_all_of_the_next():
    layer = GroupLinear(8, 8, 2, 0.0)
    inputs = torch.randn(1, 8)
    other = inputs + torch.eye(8)[0]  # a feature of the first group alone
    changed = (layer(inputs) != layer(other)).view(2, 4)
    assert changed.any(1).all(), "one of the next layer's groups hears nothing of it"


def test_groups_double_to_the_middle_and_halve_again():
    assert group_counts(4) == [2, 4, 4, 2]
    assert group_counts(5) == [2, 4, 8, 4, 2]
    assert group_counts(8) == [2, 4, 8, 8, 8, 8, 4, 2]


def test_blocks_grow_deeper_and_wider():
    shapes = [BlockScaling(4, 8, 2.0).of(block, 5) for block in range(5)]
    assert [layers for layers, _ in shapes] == [4, 5, 6, 7, 8]
    assert [multiplier for _, multiplier in shapes] == [2.0, 2.25, 2.5, 2.75, 3.0]
    assert BlockScaling(4, 8).of(0, 1) == (4, 2.0)


@pytest.mark.parametrize("layers", range(2, 9))
def test_a_transformation_widens_to_the_multiplier_and_ends_at_half(layers: int):
    made = ExpandReduce(64, layers, 2.0, 0.0)
    sizes = [len(each.weight) * each.weight.shape[2] for each in made.layers]
    assert len(sizes) == layers and sizes[-1] == 32
    assert max(sizes) == (128 if layers > 2 else 32)
    rising = sizes[: (layers + 1) // 2]
    assert all(one <= other for one, other in pairwise(rising))
    assert made(torch.randn(2, 3, 64)).shape == (2, 3, 32)


def test_the_input_reaches_every_layer_of_the_transformation():
    """Cut the first layer off: what the later ones see of the input is still there."""
    made = ExpandReduce(64, 4, 2.0, 0.0)
    torch.nn.init.zeros_(made.layers[0].norm.weight)
    one, other = made(torch.randn(1, 64)), made(torch.randn(1, 64))
    assert not torch.allclose(one, other)


@pytest.mark.parametrize("length", LENGTHS)
def test_it_is_causal(length: int):
    found = moved(a_model(), ids(length), length // 2)
    assert found.before == 0 and found.at > 0 and found.after > 0


def test_it_decodes_a_step_at_a_time_as_all_at_once():
    model, tokens = a_model(), ids(9)
    cache = model.empty_cache()
    steps = [model.decode(tokens[:, [at]], None, None, cache) for at in range(9)]
    assert torch.allclose(torch.cat(steps, 1), model.decode(tokens, None, None))


def test_its_one_head_is_half_as_wide_as_the_model():
    (kind, _, block), *others = a_model().attentions()
    assert (kind, block.heads, block.query.weight.shape) == (Kind.DECODER, 1, (16, 16))
    assert block.output.weight.shape == (32, 16) and len(others) == 2


def test_it_is_lighter_than_a_transformer_of_its_width():
    wide = {"width": 128, "feed_forward": 512, "decoder_layers": 6}
    light = a_model(**wide)
    heavy = Transformer(TransformerConfig(**SHAPE | wide))
    counts = [sum(each.numel() for each in model.decoder.parameters()) for model in (light, heavy)]
    assert counts[0] < 0.6 * counts[1]


def test_every_weight_learns():
    model = a_model().train()
    model.logits(model.decode(ids(9), None, None)).square().sum().backward()
    without = [name for name, each in model.decoder.named_parameters() if each.grad is None]
    assert not without


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"width": 48}, "multiple of 32"),
        ({"heads": 2}, "one head"),
        ({"encoder_layers": 1}, "encoder"),
    ],
)
def test_a_shape_it_cannot_have_is_refused(changed: dict[str, int], said: str):
    with pytest.raises(UserError, match=said):
        a_model(**changed)


@pytest.mark.parametrize("layers", [(1, 4), (5, 4)])
def test_a_depth_it_cannot_have_is_refused(layers: tuple[int, int]):
    with pytest.raises(UserError, match="at least 2"):
        BlockScaling(*layers)
