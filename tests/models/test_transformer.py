"""The transformer: causality, padding, its variants by layer counts, positions and size."""

import pytest
import torch
from blocks import alone, ragged, tiny

from headbook.models.attention import AttentionPath
from headbook.models.transformer import NormPlacement, sinusoids
from headbook.text.batches import EOS, PAD
from headbook.types import UserError

# Double precision: what is left is the order of summation, which the width of a batch changes.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
@pytest.mark.parametrize("shape", [{"encoder_layers": 0}, {"decoder_layers": 0}])
def test_a_sentence_gets_the_same_logits_alone_and_in_a_padded_batch(
    shape: dict, path: AttentionPath
) -> None:
    """Of the variants without a published counterpart. Padding behind a target is not hidden from
    it, but comes after it."""
    model, lengths = tiny(path=path, **shape), [3, 7, 1, 33]
    batch = ragged(lengths, lengths, extra=3)
    together = model(batch)
    for row, length in enumerate(lengths):
        own = model(alone(batch, row))[0]
        torch.testing.assert_close(own, together[row, :length], **CLOSE)


@pytest.mark.parametrize("norm", NormPlacement)
@pytest.mark.parametrize(("encoder", "decoder"), [(2, 3), (2, 0), (0, 3)])
def test_layer_counts_choose_the_variant_and_every_parameter_is_used(
    encoder: int, decoder: int, norm: NormPlacement
) -> None:
    model = tiny(encoder_layers=encoder, decoder_layers=decoder, norm=norm, source_vocabulary=11)
    model(ragged([4, 2], [3, 3], vocabulary=11)).sum().backward()
    assert not [name for name, value in model.named_parameters() if value.grad is None]


def test_position_signal_at_known_places() -> None:
    """Width 4: frequencies 1 and 1/10,000; sines fill the first half, cosines the second."""
    signal = sinusoids(2, 4).double()
    expected = torch.tensor([[0, 0, 1, 1], [0.8414709848, 1e-4, 0.5403023059, 1 - 5e-9]]).double()
    torch.testing.assert_close(signal, expected, rtol=0, atol=1e-7)
    # PAD is the decoder's start: the signal alone, whatever PAD's row has become
    embedding = tiny().target
    vector = embedding(torch.tensor([[PAD]]))[0, 0]
    torch.testing.assert_close(vector, sinusoids(1, 16)[0].double(), rtol=0, atol=1e-7)
    ids = torch.full((1, 300), EOS)  # more than are prepared
    later = embedding(ids[:, :1], first=299)
    torch.testing.assert_close(embedding(ids)[:, 299:], later, **CLOSE)
    difference = embedding(ids)[0] - embedding(ids)[0, 0]
    expected = (sinusoids(300, 16) - sinusoids(1, 16)).double()
    torch.testing.assert_close(difference, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10}, "width 10 is not a multiple of heads 4"),
        ({"encoder_layers": 0, "decoder_layers": 0}, "encoder_layers or decoder_layers"),
        ({"dropout": 1.0}, r"dropout 1.0 is not in \[0, 1\)"),
    ],
)
def test_impossible_configuration_is_refused(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        tiny(**options)
