"""Attention with few query-key dimensions, and trained encoders whose products are replaced."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from blocks import drawn

import headbook as hb
from headbook.experiments import collaborating, rewriting
from headbook.experiments.collaborating import DIMS, KINDS, RATES, SEEDS
from headbook.experiments.rewriting import Reader, rewritten
from headbook.models.attention import Attention, AttentionPath
from headbook.models.capture import Point
from headbook.models.edits import edited
from headbook.models.loaded import pooled
from headbook.types import Kind


def test_block_one_hot_mixing_is_ordinary_attention():
    torch.manual_seed(0)
    ordinary = Attention(12, 3, 0.0, AttentionPath.AUTO)
    shared = collaborating.Collaborative(12, 3, 12)
    shared.load_state_dict(ordinary.state_dict(), strict=False)  # it has two biases less
    ordinary.query.bias.data.zero_(), ordinary.key.bias.data.zero_()
    # scores are divided by the root of all twelve dimensions, not of a head's four
    shared.mixing.data = torch.eye(3).repeat_interleave(4, 1) * 3**0.5
    states = drawn(2, 9, 12).float()
    torch.testing.assert_close(shared(states, states), ordinary(states, states))


@pytest.mark.slow
def test_attention_of_all_dimensions_learns_to_recall():
    assert collaborating.recalled("collaborative", 64, 3e-3, 120, 0)["right"] > 0.9


def test_the_gain_is_of_the_fewest_dimensions_at_the_better_rate():
    rows = pd.DataFrame(
        product(KINDS, DIMS, RATES, SEEDS), columns=["heads", "dims", "rate", "seed"]
    )
    few, shared = rows["dims"] == min(DIMS), rows["heads"] == "collaborative"
    rows["right"] = 1 - 0.4 * few + (few & shared) * (0.3 - 0.5 * (rows["rate"] == max(RATES)))
    rows["loss"] = 1 - rows["right"]
    found = collaborating.gain(rows.assign(right=rows["right"] - 0.001 * rows["seed"] * few))
    assert found["value"].to_numpy() == pytest.approx([0.3] * 3)
    assert set(found["closed"]) == {"none"}
    assert collaborating.gain(rows.assign(right=1.0))["closed"].str.startswith("diagnostic").all()


def test_a_translator_is_read_by_its_loss_and_its_bleu(monkeypatch):
    model = hb.load("firefox-en-pt")
    sentences = ["It rains a lot here .", "The dog sees a small red ball ."]
    own = "own", sentences, model.translate(sentences)
    monkeypatch.setattr(rewriting, "text_of", lambda *_: own)
    reader = Reader(model, 2)
    assert np.allclose(reader.cost(), 0) and reader.bleu(2)["bleu"] == pytest.approx(100)
    with torch.no_grad(), edited(model.network, {(Kind.ENCODER, 0): {Point.CONTEXT: lambda x: -x}}):
        assert reader.cost().mean() > 0.1
        assert reader.bleu(2)["difference"] < -10


def test_scores_of_constants_average_over_real_keys_and_hooks_are_gone_after():
    """Of a sentence alone and beside a longer one: the padding of a batch is masked."""
    model = hb.load("minilm")

    def flat(_, query, by_head, x, y):
        return torch.zeros(len(x), len(by_head), x.shape[1], y.shape[1])

    def vectors(batch):
        return pooled(model.encoded(batch), batch.source_mask)

    sentences = ["It rains .", "A small test of a dozen heads that look at nothing in particular ."]
    with torch.no_grad():
        (both,), (one,) = model.batches(sentences), model.batches(sentences[:1])
        before = vectors(one)
        with rewritten(model, [(torch.empty(0),) * 3] * 6, flat):
            alone, beside = vectors(one), vectors(both)
        assert not torch.allclose(alone, before, atol=1e-2)
        torch.testing.assert_close(vectors(one), before)
    at = both.sentences.tolist().index(0)
    torch.testing.assert_close(beside[at], alone[0], atol=1e-4, rtol=1e-4)
