"""Texts whose answer is known."""

import pytest
import torch

from headbook.corpora.retrieval import KEYS, VALUES, retrieval
from headbook.text.batches import PAD


@pytest.mark.parametrize("last", [False, True])
def test_the_value_that_is_asked_for_stands_where_it_says(last):
    noise = torch.Generator().manual_seed(0)
    texts, values, distances = retrieval(33, 4, 200, noise, last)
    texts = texts.flip(1) if last else texts
    found = (each.tolist() for each in (texts, values, distances))
    for text, value, distance in zip(*found, strict=True):
        key = text[0] - PAD - 1 - KEYS * VALUES
        pairs = [each - PAD - 1 for each in text[1:] if each <= PAD + KEYS * VALUES]
        told = [each % VALUES for each in pairs if each // VALUES == key]
        assert len(pairs) == 4 and told == [value]
        assert text[distance] == PAD + 1 + key * VALUES + value
    assert distances.min() == 1 and 24 < distances.max() < 33
    # as many within the square root of the length as beyond
    assert 0.4 < (distances < 33**0.5).float().mean() < 0.7
