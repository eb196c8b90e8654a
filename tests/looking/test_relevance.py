"""Relevance of a loaded model: conserved in 64-bit numbers, and the model is left as it was."""

import pytest
import torch

from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.relevance import relevance
from headbook.looking.text import text
from headbook.types import UserError


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


def test_a_model_that_translates_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="Firefox translators and translation models"):
        relevance(load("minilm"), [])


def test_a_table_without_the_decoder_has_the_same_encoder() -> None:
    model, some = load("mixture-fr-256"), text("ewt-sample", first=4)
    quick = {"importance": False, "nulls": 0, "diverse": False, "progress": False}
    alone, whole = (measure(model, some, decoder=each, **quick) for each in (False, True))
    assert set(alone["kind"]) == {"encoder"} < set(whole["kind"])
    same = whole[whole["kind"] == "encoder"][list(alone)]
    assert alone.equals(same)
