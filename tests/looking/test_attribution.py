"""Attributions: known answers where words are read one by one, and what they must sum to."""

from itertools import permutations

import pytest
import torch

from headbook.corpora.batches import PAD, UNK
from headbook.looking import attribution
from headbook.looking.attribution import (
    gradient_times_input,
    integrated_gradients,
    left_out,
    sensitivity,
    shapley,
)
from headbook.models.pooled import PooledClassifier, PooledConfig, Reader
from headbook.types import UserError

IDS = torch.tensor([[5, 6, 7, 8], [7, 5, 9, PAD]])
EVERY = (sensitivity, left_out, gradient_times_input, integrated_gradients, shapley)


@pytest.fixture(params=list(Reader))
def model(request):
    torch.manual_seed(1)
    return PooledClassifier(PooledConfig(12, request.param, width=16, heads=2)).eval()


@pytest.mark.parametrize("method", EVERY)
def test_padding_has_no_part(model, method):
    found = method(model, IDS)
    assert found.shape == IDS.shape
    assert found[1, 3] == pytest.approx(0, abs=1e-6)
    if method is not shapley:  # whose orders are drawn: it has its own test
        torch.testing.assert_close(found[1:, :3], method(model, IDS[1:, :3]))


def test_a_word_left_out_is_a_shorter_sentence(model):
    whole, shorter = model(IDS[:1]), model(IDS[:1, [0, 2, 3]])
    expected = (whole.logits.sigmoid() - shorter.logits.sigmoid()).abs()
    torch.testing.assert_close(left_out(model, IDS[:1])[:, 1], expected)


def test_integrated_gradients_sum_to_the_difference_from_the_baseline(model, monkeypatch):
    monkeypatch.setattr(attribution, "STEPS", 300)
    sign = model(IDS).logits.sign()
    zero = model.read(torch.zeros_like(model.words(IDS)), IDS != PAD).logits
    expected = (model(IDS).logits - zero) * sign
    found = integrated_gradients(model, IDS).sum(1)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0.02)


def test_shapley_values_are_the_mean_over_orders(model, monkeypatch):
    monkeypatch.setattr(attribution, "SAMPLES", 400)
    row = IDS[1, :3].tolist()
    sign = float(model(IDS[1:, :3]).logits.sign())

    def logit(places):
        words = [row[place] for place in sorted(places)] or [UNK]
        return sign * float(model(torch.tensor([words])).logits)

    expected = torch.zeros(3)
    for order in permutations(range(3)):
        for at, place in enumerate(order):
            expected[place] += (logit(order[: at + 1]) - logit(order[:at])) / 6
    found = shapley(model, IDS[1:, :3])[0]
    torch.testing.assert_close(found, expected, atol=0.15 * float(expected.abs().max()), rtol=0)


def test_sensitivity_is_the_linear_term_of_a_linear_model():
    torch.manual_seed(2)
    model = PooledClassifier(PooledConfig(12, Reader.WORDS, width=16, uniform=True)).eval()
    found = sensitivity(model, IDS[:1])
    share, step = model(IDS[:1]).logits.sigmoid(), 1e-3
    for place in range(4):
        vectors = model.words(IDS[:1]).detach().clone()
        vectors[0, place] *= 1 - step
        moved = model.read(vectors, IDS[:1] != PAD).logits.sigmoid()
        expected = (share - moved).abs() / step
        torch.testing.assert_close(found[:, place], expected, atol=1e-4, rtol=0.02)


def test_without_captum_one_line_names_the_mend(model, monkeypatch):
    monkeypatch.setattr(attribution.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install"):
        shapley(model, IDS)
