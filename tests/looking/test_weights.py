"""The projections of a model's heads: whose they are, and how they lie."""

import torch
from blocks import drawn, tiny

from headbook.looking.weights import encoder_weights, projections
from headbook.types import Kind


def test_heads_have_their_columns_of_every_projection() -> None:
    model = tiny(decoder_layers=1)
    found = [each for each in projections(model) if each[0] is Kind.ENCODER]
    assert len(list(projections(model))) == 4 and len(found) == 2
    states = drawn(5, 16)
    for weights, side in zip(encoder_weights(model), ("query", "key", "value"), strict=True):
        for layer, (_, _, block, *_) in enumerate(found):
            linear = getattr(block, side)
            whole = torch.cat([*(states @ weights[layer])], dim=-1) + linear.bias
            torch.testing.assert_close(whole, linear(states))
