"""The seven numbers of a word and head, by hand."""

import math

import torch

from headbook.heads.word_features import word_features


def test_seven_numbers_by_hand():
    weights = torch.tensor([[[0.5, 0.25, 0.0], [0.0, 1.0, 0.0], [0.1, 0.6, 0.2]]])
    special = torch.tensor([[0.25, 0.0, 0.1]])
    own, before, after, on_special, largest, entropy, received = word_features(weights, special).T
    torch.testing.assert_close(own, torch.tensor([0.5, 1.0, 0.2]))
    torch.testing.assert_close(before, torch.tensor([0.0, 0.0, 0.6]))
    torch.testing.assert_close(after, torch.tensor([0.25, 0.0, 0.0]))
    torch.testing.assert_close(on_special, special[0])
    torch.testing.assert_close(largest, torch.tensor([0.25, 0.0, 0.6]))
    torch.testing.assert_close(entropy[:2], torch.tensor([1.5 * math.log(2), 0.0]))
    torch.testing.assert_close(received, torch.tensor([0.1, 0.85, 0.0]))
