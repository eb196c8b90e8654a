"""States of words and sentences: against the network's own output and slow sums."""

import pytest
import torch

from headbook.looking.load import load
from headbook.looking.states import over_words, sentence_states, word_states
from headbook.looking.text import text
from headbook.text.alignment import align_all

MODELS = ("firefox-en-pt", "minilm")


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return load(request.param)


@pytest.fixture(scope="module")
def trees():
    return [tree for tree in text("ewt-sample").trees if 4 <= len(tree) <= 20][:5]


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
