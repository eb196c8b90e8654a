"""Blank-out and gradients against plain loops; the attention graph of the three kinds of models."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headbook.artefacts.texts import Text
from headbook.looking.attention_graph import AttentionGraph, attention_graph, input_words
from headbook.looking.embeddings import embedding
from headbook.looking.influence import Outputs, blank_out, input_gradients
from headbook.looking.ours import OurModel
from headbook.types import Kind


@pytest.fixture
def translated(ours: OurModel, sample: Text):
    """One short sentence with another as its translation."""
    short = [each for each in sample.sentences if len(each.split()) == 6]
    return ours.batches(short[:1], short[1:2])[0]


def test_blank_out_replaces_one_word_and_reads_what_moved(ours: OurModel, translated):
    outputs, words = Outputs(ours, Kind.CROSS), input_words(Kind.CROSS, translated)
    found = blank_out(outputs, translated, words)
    whole = ours.network(translated).softmax(-1)
    for place in words.nonzero().flatten().tolist():
        ids = translated.source.clone()
        ids[0, place] = ours.unknown
        moved = ours.network(replace(translated, source=ids)).softmax(-1)
        expected = (whole - moved).abs().sum(-1)[0] / 2
        assert found[:, place].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    assert not found[:, ~words].any()


def test_the_gradient_of_a_prediction_is_that_of_small_steps(ours: OurModel, translated):
    network = ours.network.double()
    try:
        outputs, words = Outputs(ours, Kind.CROSS), input_words(Kind.CROSS, translated)
        found = input_gradients(outputs, translated, words)
        wanted = outputs.read(translated)[0].argmax(-1)

        def read(step: torch.Tensor) -> torch.Tensor:
            table = network.source.tokens
            hook = table.register_forward_hook(lambda *given: given[2] + step)
            logits = network(translated).log_softmax(-1)[0]
            hook.remove()
            return logits[2, wanted[2]]

        width, step = network.config.width, 1e-5
        place = int(words.nonzero()[1])
        slopes = []
        for dimension in range(width):
            moved = torch.zeros(1, translated.source.shape[1], width, dtype=torch.float64)
            moved[0, place, dimension] = step
            slopes.append((read(moved) - read(-moved)).item() / (2 * step))
        assert float(found[2, place]) == pytest.approx(float(np.linalg.norm(slopes)), rel=1e-3)
    finally:
        ours.network.float()


def test_an_encoders_gradient_is_the_norm_of_its_jacobian(ours: OurModel, translated):
    outputs, words = Outputs(ours, Kind.ENCODER, pooled=True), input_words(Kind.CROSS, translated)
    with embedding(ours.network, translated.source) as seen:
        state = outputs.read(translated)[0, 0]
    rows = [torch.autograd.grad(each, seen, retain_graph=True)[0][0] for each in state]
    norms = torch.stack(rows).square().sum((0, 2)).sqrt()
    found = input_gradients(outputs, translated, words)[0]
    near = np.corrcoef(found[words], norms[words])[0, 1]
    assert near > 0.5 and found[words].mean() == pytest.approx(float(norms[words].mean()), rel=0.3)


def test_the_graph_of_a_translation_ends_in_the_source(ours: OurModel, translated):
    graph = attention_graph(ours.network, Kind.CROSS, translated)
    outputs, inputs = len(graph.outputs), len(graph.inputs)
    assert inputs == translated.source.shape[1] - 1 and outputs == translated.target_in.shape[1] - 1
    for scores in (graph.raw(), graph.rollout(), graph.flow(), graph.nearness()):
        assert [tuple(each.shape) for each in scores] == [(outputs, inputs)] * 2
    assert not graph.own.any() and graph.seen.all()
    for flow, share in zip(graph.flow(), graph.rollout(), strict=True):
        # Weights of 32 bits add up to one but for rounding, which differs between processors.
        assert (flow >= share - 1e-7).all() and (flow <= 1 + 1e-6).all()


def test_the_mean_of_all_tokens_rolls_out_to_the_mean_of_their_rollouts(ours, translated):
    graph = attention_graph(ours.network, Kind.ENCODER, translated)
    every = AttentionGraph(
        graph.kind, graph.weights, torch.arange(len(graph.inputs) + 1), graph.inputs
    )
    pooled = replace(graph, pooled=True)
    for mine, each in zip(pooled.rollout(), every.rollout(), strict=True):
        assert mine[0].tolist() == pytest.approx(each.mean(0).tolist())
    assert all((flow >= share - 1e-7).all()
               for flow, share in zip(pooled.flow(), pooled.rollout(), strict=True))  # fmt: skip


def test_with_equal_weights_a_decoder_favours_the_first_words():
    """The bias that rollout has in causal attention, whatever was learnt."""
    weights = [torch.rand(2, 6, 6, dtype=torch.float64).tril()] * 3
    places = torch.arange(6)
    graph = AttentionGraph(Kind.DECODER, {Kind.DECODER: weights}, places, places).uniform()
    last = graph.rollout()[-1][-1]
    assert (last[:-1].diff() < 0).all()
