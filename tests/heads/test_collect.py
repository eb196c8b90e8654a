"""The measuring pass over a real, tiny transformer."""

import torch

from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.heads.positional import PositionalShare
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.models.capture import Point, capture
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import Kind


def tiny() -> Transformer:
    torch.manual_seed(0)
    shape = {"encoder_layers": 2, "decoder_layers": 1, "width": 16, "feed_forward": 32, "heads": 2}
    return Transformer(TransformerConfig(1000, 1000, dropout=0.5, **shape))


def test_one_pass_updates_every_measure(corpus) -> None:
    model = tiny().train()
    batches = [corpus.batch([0, 1, 2]), corpus.batch([3, 4])]
    confidence, cross = Confidence(Kind.ENCODER), Confidence(Kind.CROSS)
    positional, syntactic = PositionalShare(Kind.DECODER), SyntacticAccuracy(corpus.trees)
    collect(model, batches, [confidence, cross, positional, syntactic], iter)
    assert model.training
    assert confidence.compute().shape == (2, 2) and cross.compute().shape == (1, 2)
    assert positional.compute().shape == (1, 2, 11) and syntactic.compute().shape == (2, 2, 8)


def test_dropout_is_off(corpus) -> None:
    model, batch = tiny().train(), corpus.batch([0, 1, 2])
    found, expected = Confidence(Kind.ENCODER), Confidence(Kind.ENCODER)
    collect(model, [batch], [found], iter)
    with torch.no_grad(), capture(model.eval(), {Point.WEIGHTS}) as tape:
        model(batch)
    expected.update(tape, batch)
    assert torch.allclose(found.compute(), expected.compute())
