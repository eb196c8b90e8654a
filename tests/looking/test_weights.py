"""One projection for queries and keys: which weights change, and whose."""

import torch

from headbook.heads.symmetry import projection_asymmetry
from headbook.looking.weights import encoder_weights, tied
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import Kind


def test_tying_changes_the_copy_only_and_only_encoder_keys() -> None:
    torch.manual_seed(0)
    model = Transformer(
        TransformerConfig(
            source_vocabulary=11, target_vocabulary=13, encoder_layers=2, decoder_layers=1,
            width=8, feed_forward=16, heads=2, dropout=0.0,
        )
    )  # fmt: skip
    before = {name: value.clone() for name, value in model.state_dict().items()}
    copy = tied(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    changed = {
        name for name, value in copy.state_dict().items() if not torch.equal(value, before[name])
    }
    assert changed == {f"encoder.{layer}.attention.key.weight" for layer in (0, 1)}
    for kind, _, block in copy.attentions():
        same = torch.equal(block.query.weight, block.key.weight)
        assert same == (kind is Kind.ENCODER)
    query, key = encoder_weights(model)
    assert query.shape == key.shape == (2, 2, 8, 4)
    assert (projection_asymmetry(query, key) > 0.1).all()
    assert (projection_asymmetry(*encoder_weights(copy)) == 0).all()
