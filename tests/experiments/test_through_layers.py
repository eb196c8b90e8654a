"""Rollout and flow on graphs small enough to follow by hand; effects of words against loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import headbook as hb
from headbook.experiments import through_layers as through
from headbook.models.loaded import Loaded
from headbook.text.batches import Batch

LOW = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
HIGH = np.array([[0.5, 0.5, 0.0], [0.0, 0.7, 0.3], [0.2, 0.2, 0.6]])
WORDS = np.arange(3)


@pytest.fixture(scope="module")
def translated() -> tuple[Loaded, Batch, np.ndarray]:
    """A model in double precision, one short sentence with a translation, places of its words."""
    ours = hb.load("tatoeba-de-128-more-updates")
    ours.network.double()
    batch = ours.batches(["She reads a book."], ["Sie liest ein Buch."])[0]
    return ours, batch, (batch.source_mask & ~batch.source_boundary)[0].numpy().nonzero()[0]


def test_rollout_and_flow_of_three_tokens_by_hand():
    assert through.rollout([LOW, HIGH])[1][2] == pytest.approx([0.42, 0.28, 0.3])
    # Token 0 reaches 1 over 0 and 1: min(.5, .4) + .5; token 2 reaches 0 over 0 and 2.
    assert through.flow([LOW, HIGH], np.eye(3)[0], WORDS) == pytest.approx([0.5, 0.9, 0.0])
    assert through.flow([LOW, HIGH], np.eye(3)[2], WORDS) == pytest.approx([0.7, 0.4, 0.5])


def test_a_translation_reads_half_of_the_encoders_top():
    own, cross = [np.stack([LOW])], [np.array([[[0.2, 0.8, 0.0], [0.0, 0.0, 1.0]]])]
    found = through.scores(own, cross, np.eye(2), WORDS)
    top = (LOW + np.eye(3)) / 2
    assert found["rollout"][0] == pytest.approx(cross[0][0] @ top / 2)
    assert found["nearness"][0][1] == pytest.approx([-1 / 2, -1 / 6, -1 / 6])


def test_blank_out_replaces_one_word_and_reads_what_moved(translated: tuple):
    ours, batch, words = translated
    found = through.blank_out(ours, batch, through.TRANSLATION, words)
    whole = ours.network(batch).softmax(-1)
    for column, place in enumerate(words.tolist()):
        ids = batch.source.clone()
        ids[0, place] = ours.unknown
        moved = ours.network(replace(batch, source=ids)).softmax(-1)
        expected = (whole - moved).abs().sum(-1)[0] / 2
        assert found[:, column].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


def test_the_gradient_of_a_prediction_is_that_of_small_steps(translated: tuple):
    """A step along each dimension of the second word's embedding, a row of the batch each."""
    ours, batch, words = translated
    network, width = ours.network, ours.network.config.width
    found = through.input_gradients(ours, batch, through.TRANSLATION, words)
    wanted = network(batch)[0, 2].argmax()
    many = batch.select(torch.zeros(width, dtype=torch.long))
    moved = torch.zeros(width, batch.source.shape[1], width).double()
    moved[:, words[1]] = 1e-5 * torch.eye(width).double()
    sides = []
    for step in (moved, -moved):
        hook = network.source.tokens.register_forward_hook(lambda *given, s=step: given[2] + s)
        sides.append(network(many).log_softmax(-1)[:, 2, wanted])
        hook.remove()
    slopes = (sides[0] - sides[1]) / 2e-5
    assert float(found[2, 1]) == pytest.approx(slopes.norm().item(), rel=1e-3)


def test_agreement_is_the_mean_over_outputs_and_zero_where_nothing_is_ranked():
    effect = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]])
    score, counted = np.array([[1.0, 3.0, 5.0, 0.0], [1.0] * 4]), np.ones((2, 4), bool)
    counted[0, 3] = False
    assert through.agreement(score, effect, counted) == pytest.approx(0.5)
