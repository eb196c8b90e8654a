"""Relevance of a loaded model: means by hand, conserved in 64-bit numbers, and what is refused."""

from dataclasses import replace

import torch
from refusing import refused

from headbook.heads.relevance import Relevances
from headbook.looking.load import load
from headbook.looking.relevance import relevance, terms
from headbook.models.transformer import HeadCounts, Transformer, TransformerConfig
from headbook.types import Kind


def test_means_over_predictions_by_hand() -> None:
    """One sentence of two predictions and one of a single one, in a layer of two heads."""
    heads = torch.tensor([[[[0.3, -0.1]], [[0.0, 0.0]]], [[[0.2, 0.2]], [[0.0, 0.0]]]]).double()
    totals = torch.tensor([[[1.0], [0.9]], [[0.5], [0.0]]]).double()
    counted = torch.tensor([[True, True], [True, False]])
    found = terms(Relevances({Kind.CROSS: heads}, {Kind.ENCODER: totals}, counted))
    means = {name: above.sum(0) / below.sum(0) for name, (above, below) in found.items()}
    # Parts of the layer: 3/4, 1/4; the second prediction reached no head; 1/2, 1/2.
    expected = torch.tensor([[0.625, 0.375]]).double()
    torch.testing.assert_close(means["normalised/cross"], expected)
    torch.testing.assert_close(means["conservation/encoder"], torch.tensor([0.8]).double())


def test_relevance_is_conserved_down_a_translation_model() -> None:
    model = load("mixture-fr-256")
    own = [each.clone() for each in model.network.parameters()]
    sums = relevance(model, model.batches(["The cat sleeps."], ["Le chat dort."]))
    left = sums["conservation/encoder"].ratio()
    torch.testing.assert_close(left, torch.ones(6).double(), atol=1e-9, rtol=0)
    parts = sums["normalised/encoder"].ratio()
    assert parts.shape == (6, 8)
    torch.testing.assert_close(parts.sum(-1), torch.ones(6).double())
    now = list(model.network.parameters())
    assert all(torch.equal(one, other) for one, other in zip(own, now, strict=True))
    assert not any(each._forward_hooks for each in model.network.modules())


def test_models_that_it_cannot_go_through_are_refused() -> None:
    model = load("mixture-fr-256")
    shape = TransformerConfig(9, 9, 1, 1, 8, 8, 2, head_counts=HeadCounts((2,), (1,), (2,)))
    with refused("close heads by gates"):
        relevance(replace(model, network=Transformer(shape)), [])
    with refused("Firefox translators and translation models"):
        relevance(load("minilm"), [])
