"""An encoder put together again is the model's own."""

import pytest
import torch
from blocks import ragged, tiny
from refusing import refused

from headbook.looking.load import load
from headbook.looking.sublayers import encoder, of_ours
from headbook.models.transformer import NormPlacement

SENTENCE = "A cat sat on the mat ."


@pytest.mark.parametrize("name", ["firefox-en-pt", "minilm"])
def test_a_released_encoder_put_together_is_the_models_own(name):
    model = load(name)
    (batch,) = model.batches([SENTENCE])
    found = encoder(model).states(batch)
    with torch.no_grad():
        if name == "minilm":
            wanted = model.network.encode(batch)
        else:
            wanted, _ = model.network.encode(batch.source, batch.source_mask)
    torch.testing.assert_close(found[-1], wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", NormPlacement)
def test_our_encoder_put_together_is_the_models_own_but_for_the_last_norm(norm):
    network, batch = tiny(norm=norm).eval(), ragged([4], [2])
    found = of_ours(network).states(batch)[-1]
    memory, _ = network.encode(batch.source)
    torch.testing.assert_close(network.encoder_norm(found), memory)


def test_a_batch_with_padding_is_refused():
    model = load("firefox-en-pt")
    (batch,) = model.batches([SENTENCE, f"{SENTENCE} {SENTENCE}"])
    with refused("without padding"):
        encoder(model).states(batch)
