"""The pooled classifier: padding and neighbours, uniform and imposed weights."""

import pytest
import torch

from headbook.models.pooled import PooledClassifier, PooledConfig, Reader

IDS = torch.tensor([[5, 6, 7, 8, 9], [7, 5, 3, 0, 0]])


def classifier(reader, **options):
    torch.manual_seed(0)
    return PooledClassifier(PooledConfig(12, reader, width=16, heads=2, **options)).eval()


@pytest.mark.parametrize("reader", Reader)
def test_padding_changes_nothing(reader):
    model = classifier(reader)
    both, alone = model(IDS), model(IDS[1:, :3])
    torch.testing.assert_close(both.logits[1:], alone.logits)
    torch.testing.assert_close(both.weights[1:, :3], alone.weights)
    assert both.weights[1, 3:].eq(0).all()
    torch.testing.assert_close(both.weights.sum(1), torch.ones(2))


@pytest.mark.parametrize("reader", Reader)
def test_the_logit_is_the_linear_layer_on_the_pooled_states(reader):
    model = classifier(reader)
    found = model(IDS[:1])
    states = model._states(model.words(IDS[:1]), IDS[:1] != 0)
    pooled = (found.weights[..., None] * states).sum(1)
    torch.testing.assert_close(found.logits, model.output(pooled)[:, 0])


@pytest.mark.parametrize("reader", Reader)
def test_only_states_without_context_ignore_the_other_words(reader):
    model = classifier(reader)
    first, changed = IDS[:1], IDS[:1].clone()
    changed[0, 0] = 10
    same = torch.allclose(model(first).scores[0, 1:], model(changed).scores[0, 1:], atol=1e-6)
    assert same == (reader is Reader.WORDS)


def test_uniform_and_imposed_weights():
    model = classifier(Reader.LSTM, uniform=True)
    own = model(IDS)
    torch.testing.assert_close(own.weights[1], torch.tensor([1, 1, 1, 0, 0]) / 3)
    one = torch.zeros(2, 5)
    one[:, 2] = 1
    torch.testing.assert_close(model(IDS, one).logits, own.scores[:, 2])
