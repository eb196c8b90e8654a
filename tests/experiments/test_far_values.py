"""Texts whose answer is known."""

import pytest
import torch

from headbook.corpora.nested_lists import nested_lists
from headbook.corpora.retrieval import KEYS, VALUES, VOCABULARY, retrieval
from headbook.corpora.small_tasks import value as evaluated
from headbook.text.batches import PAD


@pytest.mark.parametrize("last", [False, True])
def test_the_value_that_is_asked_for_stands_where_it_says(last):
    drawn = retrieval(33, 4, 200, torch.Generator().manual_seed(0), last=last)
    for text, value, distance in zip(*map(torch.Tensor.tolist, (
            drawn.texts, drawn.values, drawn.distances)), strict=True):  # fmt: skip
        text = text[::-1] if last else text
        key = text[0] - PAD - 1 - KEYS * VALUES
        pairs = [each - PAD - 1 for each in text[1:] if each <= PAD + KEYS * VALUES]
        assert len(pairs) == 4 and [each % VALUES for each in pairs if each // VALUES == key] == [
            value
        ]
        assert text[distance] == PAD + 1 + key * VALUES + value
    assert drawn.distances.min() == 1 and 24 < drawn.distances.max() < 33
    # as many within the square root of the length as beyond
    assert 0.4 < (drawn.distances < 33**0.5).float().mean() < 0.7
    assert drawn.texts.max() < VOCABULARY


def test_nested_lists_come_to_their_values_and_none_is_tested_that_was_learned():
    known, new = nested_lists(24, 300, 100)
    rows = [tuple(row.tolist()) for row in torch.cat([known.texts, new.texts])]
    assert len(set(rows)) == len(rows) == 400
    for row, wanted in zip(rows, [*known.values, *new.values], strict=True):
        tokens = [each - PAD - 1 for each in row if each != PAD]
        assert 16 <= len(tokens) <= 24 and evaluated(tokens) == int(wanted)
    # the best guess knows the operator alone: maxima are large and minima small
    assert 0.2 < known.guessed(new) < 0.4
