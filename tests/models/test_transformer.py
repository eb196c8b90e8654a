"""The transformer: causality, padding, its variants by layer counts, positions and size."""

import pytest
import torch
from blocks import alone, ragged, tiny
from refusing import refuses

from headbook.models.attention import AttentionPath
from headbook.models.transformer import sinusoids
from headbook.text.batches import PAD

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


def test_position_signal_at_known_places() -> None:
    """Width 4: frequencies 1 and 1/10,000; sines fill the first half, cosines the second."""
    signal = sinusoids(2, 4).double()
    expected = torch.tensor([[0, 0, 1, 1], [0.8414709848, 1e-4, 0.5403023059, 1 - 5e-9]]).double()
    torch.testing.assert_close(signal, expected, rtol=0, atol=1e-7)
    # PAD is the decoder's start: the signal alone, whatever PAD's row has become
    ids = torch.full((1, 300), PAD)  # more than are prepared
    found, expected = tiny().target(ids)[0], sinusoids(300, 16).double()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(tiny().target(ids[:, :1], first=299)[0], found[299:], **CLOSE)


def test_impossible_configuration_is_refused() -> None:
    refuses(lambda: tiny(width=10), "width 10 is not a multiple of heads 4")
