"""Attention to fewer keys: against dense slow forms, with ragged padding."""

import pytest
import torch
from blocks import HEADS, WIDTH, attention, drawn, in_heads, joined, rows_of

from headbook.experiments.fewer_keys import HEAD, MEANS, look_at_fewer
from headbook.models.attention import AttentionPath
from headbook.models.fewer_keys import Mixed, means
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import PAD

LONGEST, KEYS = 33, 5


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
@pytest.mark.parametrize("length", [1, 9, 33])
def test_linformer_by_its_formula(length, path):
    """Matrices of every head, which mix its own keys."""
    of_keys, of_values = (drawn(HEADS, KEYS, LONGEST, seed=seed) for seed in (1, 2))
    block, (states, mask) = Mixed(attention(path), of_keys, of_values), rows_of(length)
    query, key, value = in_heads(block, states)
    key, value = (matrix[..., :length] @ each.masked_fill(~mask.mT, 0)
                  for matrix, each in ((of_keys, key), (of_values, value)))  # fmt: skip
    context = (query @ key.mT * (WIDTH / HEADS) ** -0.5).softmax(-1) @ value
    torch.testing.assert_close(block(states, states, mask), block.output(joined(context)))


def test_means_are_of_equal_parts():
    found = means(3, 7)
    torch.testing.assert_close(found.sum(1), torch.ones(3))
    assert sorted((found > 0).sum(1).tolist()) == [2, 2, 3] and ((found > 0).sum(0) == 1).all()


@pytest.mark.parametrize("keys", [HEAD, MEANS])
def test_a_whole_encoder_reads_ragged_texts(keys):
    source = torch.tensor([[5, 6, 7, 8], [5, 6, PAD, PAD]])
    model = Transformer(TransformerConfig(20, 20, 2, 0, 8, 16, 2, 0.0)).eval()
    look_at_fewer(model, keys, 2, 9)
    states, _ = model.encode(source)
    alone, _ = model.encode(source[1:, :2])
    torch.testing.assert_close(states[1:, :2], alone)
