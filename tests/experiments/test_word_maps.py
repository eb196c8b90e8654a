"""Attention between words and their vectors against slow sums; the seven numbers by hand."""

from math import log

import pytest
import torch
from pytest import approx

from headbook.experiments.word_maps import word_features, word_maps
from headbook.looking.load import load
from headbook.looking.text import text
from headbook.models.capture import Point, capture
from headbook.text.alignment import align_all
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind


@pytest.fixture(scope="module", params=("firefox-en-pt", "minilm"))
def model(request):
    return load(request.param)


@pytest.fixture(scope="module")
def trees():
    return [tree for tree in text("ewt-sample").trees if 4 <= len(tree) <= 20][:3]


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


def test_vectors_are_the_embeddings_of_the_pieces_without_positions(model):
    repeated = Tree("dog dog dog", ((0, 3), (4, 7), (8, 11)), (ROOT, 0, 0), ("root", "dep", "dep"))
    (maps,) = word_maps(model, [repeated])
    torch.testing.assert_close(maps.vectors[1], maps.vectors[2])


def test_seven_numbers_by_hand():
    weights = torch.tensor([[[0.5, 0.25, 0.0], [0.0, 1.0, 0.0], [0.1, 0.6, 0.2]]])
    special = torch.tensor([[0.25, 0.0, 0.1]])
    own, before, after, largest, received = word_features(weights, special)[:, [0, 1, 2, 4, 6]].T
    torch.testing.assert_close(own, torch.tensor([0.5, 1.0, 0.2]))
    torch.testing.assert_close(before, torch.tensor([0.0, 0.0, 0.6]))
    torch.testing.assert_close(after, torch.tensor([0.25, 0.0, 0.0]))
    torch.testing.assert_close(largest, torch.tensor([0.25, 0.0, 0.6]))
    torch.testing.assert_close(received, torch.tensor([0.1, 0.85, 0.0]))
    assert word_features(weights, special)[0, [3, 5]].tolist() == [0.25, approx(1.5 * log(2))]
