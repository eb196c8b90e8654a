"""The pooled classifier: padding and neighbours, uniform and imposed weights."""

import pytest
import torch

from headbook.models.pooled import PooledClassifier

IDS = torch.tensor([[5, 6, 7, 8, 9], [7, 5, 3, 0, 0]])


def classifier(reader, **options):
    torch.manual_seed(0)
    return PooledClassifier(12, reader, width=16, **options).eval()


@pytest.mark.parametrize("reader", ["BiLSTM", "transformer", "MLP"])
def test_the_logit_is_the_linear_layer_on_the_pooled_states_and_padding_changes_nothing(reader):
    model = classifier(reader)
    both, alone = model(IDS), model(IDS[1:, :3])
    torch.testing.assert_close(both.logits[1:], alone.logits)
    torch.testing.assert_close(both.weights[1:, :3], alone.weights)
    assert both.weights[1, 3:].eq(0).all()
    torch.testing.assert_close(both.weights.sum(1), torch.ones(2))
    states = model._states(model.words(IDS), IDS != 0)
    pooled = (both.weights[..., None] * states).sum(1)
    torch.testing.assert_close(both.logits, model.output(pooled)[:, 0])
    changed = IDS.clone()
    changed[0, 0] = 10  # states without context alone ignore the other words
    same = torch.allclose(both.scores[0, 1:], model(changed).scores[0, 1:], atol=1e-6)
    assert same == (reader == "MLP")
