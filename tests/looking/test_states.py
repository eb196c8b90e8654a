"""Maps, vectors and states of words: against the network's own output and slow sums."""

import pytest
import torch

from headbook.looking.load import load
from headbook.looking.states import over_words, sentence_states, word_maps, word_states
from headbook.looking.text import text
from headbook.models.capture import Point, capture
from headbook.text.alignment import align_all
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind

MODELS = ("firefox-en-pt", "minilm")


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return load(request.param)


@pytest.fixture(scope="module")
def trees():
    return [tree for tree in text("ewt-sample").trees if 4 <= len(tree) <= 20][:5]


def test_maps_are_sums_over_keys_and_means_over_queries(model, trees):
    found = word_maps(model, trees)
    tree, maps = trees[2], found[2]
    (batch,) = model.batches([tree.text])
    with torch.no_grad(), capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch)
    weights = torch.cat([each[0] for each in tape[Kind.ENCODER, Point.WEIGHTS]])
    pieces = align_all(tree, model.spans(tree.text)).pieces
    for query in range(len(tree)):
        for key in range(len(tree)):
            slow = weights[:, pieces == query][:, :, pieces == key].sum(-1).mean(-1)
            torch.testing.assert_close(maps.weights[:, query, key], slow, atol=1e-5, rtol=1e-4)
    everything = maps.weights.sum(-1) + maps.special
    torch.testing.assert_close(everything, torch.ones_like(everything), atol=1e-4, rtol=0)
    assert [each.tree for each in found] == trees


def test_vectors_are_the_embeddings_of_the_pieces_without_positions(model, trees):
    twice = " ".join([trees[0].forms[0]] * 3)
    length = len(trees[0].forms[0])
    spans = tuple((n * (length + 1), n * (length + 1) + length) for n in range(3))
    repeated = Tree(twice, spans, (ROOT, 0, 0), ("root", "dep", "dep"))
    (maps,) = word_maps(model, [repeated])
    torch.testing.assert_close(maps.vectors[1], maps.vectors[2])


def test_states_end_with_the_encoders_output(model, trees):
    tree = trees[1]
    words = word_states(model, trees)[1]
    (batch,) = model.batches([tree.text])
    with torch.no_grad():
        if hasattr(model.network, "predicts"):
            last = model.network.encode(batch)[0]
        else:
            last = model.network.encode(batch.source, batch.source_mask)[0][0]
    pieces = align_all(tree, model.spans(tree.text)).pieces
    torch.testing.assert_close(words[-1], over_words(last, pieces, len(tree)), atol=1e-4, rtol=1e-3)
    mean = sentence_states(model, [each.text for each in trees])[1]
    torch.testing.assert_close(mean[-1], last[(pieces >= 0)].mean(0), atol=1e-4, rtol=1e-3)
    assert words.shape[:2] == (7, len(tree))


def test_states_of_sentences_of_one_length_are_those_of_each_by_itself(model):
    pair = ["The dog sleeps.", "A cat walks."]
    together = sentence_states(model, pair)
    apart = torch.cat([sentence_states(model, [each]) for each in pair])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-4)


def test_a_word_is_the_mean_of_its_pieces_and_zero_without_one():
    values = torch.tensor([[9.0], [1.0], [3.0], [5.0]])
    found = over_words(values, torch.tensor([-1, 0, 0, 2]), 4)
    assert found.flatten().tolist() == [2, 0, 5, 0]
