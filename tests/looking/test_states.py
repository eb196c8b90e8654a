"""States of words and sentences: means of the encoder's, whose own are in test_sublayers.py."""

import torch

from headbook.looking.load import load
from headbook.looking.states import over_words, sentence_states, word_states
from headbook.looking.sublayers import encoder
from headbook.looking.text import text
from headbook.text.alignment import align_all


def test_states_are_means_over_pieces_whatever_sentences_stand_beside():
    """Some are of one length, which are read together."""
    model = load("minilm")
    trees = [tree for tree in text("ewt-sample").trees if 4 <= len(tree) <= 7][:9]
    assert len({len(model.pieces(tree.text)) for tree in trees}) < 9
    means = sentence_states(model, [tree.text for tree in trees])
    for tree, words, mean in zip(trees, word_states(model, trees), means, strict=True):
        states = [layer[0] for layer in encoder(model).states(*model.batches([tree.text]))]
        pieces = align_all(tree, model.spans(tree.text)).pieces
        expected = torch.stack([over_words(layer, pieces, len(tree)) for layer in states])
        torch.testing.assert_close(words, expected, atol=1e-5, rtol=1e-4)
        expected = torch.stack([layer[pieces >= 0].mean(0) for layer in states])
        torch.testing.assert_close(mean, expected, atol=1e-5, rtol=1e-4)


def test_a_word_is_the_mean_of_its_pieces_and_zero_without_one():
    values = torch.tensor([[9.0], [1.0], [3.0], [5.0]])
    found = over_words(values, torch.tensor([-1, 0, 0, 2]), 4)
    assert found.flatten().tolist() == [2, 0, 5, 0]
