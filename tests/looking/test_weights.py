"""The projections of a model's heads: whose they are, and how they lie."""

import torch

from headbook.looking.weights import encoder_weights, projections
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import Kind


def test_every_block_has_its_three_projections_and_heads_their_columns() -> None:
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocabulary=11, target_vocabulary=13, encoder_layers=2, decoder_layers=1,
            width=8, feed_forward=16, heads=2, dropout=0.0,
        )
    )  # fmt: skip
    found = list(projections(model))
    assert [(kind, layer) for kind, layer, *_ in found] == [
        (Kind.ENCODER, 0),
        (Kind.ENCODER, 1),
        *((kind, 0) for kind, _, _ in list(model.attentions())[2:]),
    ]
    for _, _, block, *maps in found:
        assert all(x is y for x, y in zip(maps, (block.query, block.key, block.value), strict=True))
    states = torch.randn(5, 8)
    for weights, side in zip(encoder_weights(model), ("query", "key", "value"), strict=True):
        assert weights.shape == (2, 2, 8, 4)
        for layer in (0, 1):
            linear = getattr(found[layer][2], side)
            projected = states @ weights[layer]  # [head token dim]
            whole = torch.cat([*projected], dim=-1) + (0 if linear.bias is None else linear.bias)
            assert torch.allclose(whole, linear(states), atol=1e-6)
