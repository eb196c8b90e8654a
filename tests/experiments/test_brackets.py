"""Nested arithmetic: values by hand, sets that never meet."""

import random

import pytest
import torch

from headbook.experiments import brackets
from headbook.experiments.brackets import NO_VALUE, Setting, encoded, expression, right, start


def test_values_of_all_brackets_by_hand_stand_where_they_close() -> None:
    found = brackets.values("((0-1)*((2*2)-2))")
    assert [each for each in found if each is not None] == [2, 1, 2, 1]
    ids, wanted = encoded(["((1+2)*2)", "(2-1)"])
    assert (wanted != NO_VALUE).nonzero().tolist() == [[0, 5], [0, 8], [1, 4]]
    assert wanted[0, 5] == wanted[0, 8] == ids[1, 3] - 1


def test_expressions_are_as_deep_as_asked_and_none_is_tested_that_was_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brackets, "TESTED", 20)
    monkeypatch.setattr(brackets, "EXPRESSIONS", 600)
    training = brackets.training_set(0)
    for depth, texts in brackets.held_out().items():
        assert texts and len(texts) == len(set(texts)) and not set(texts) & set(training)
        for text in texts:
            opened = [text[:at].count("(") - text[:at].count(")") for at in range(len(text))]
            assert max(opened) == depth and len(text) <= 17


def test_an_answer_is_read_at_the_last_bracket() -> None:
    """Of a model that has learnt nothing but to answer with a digit."""
    model, noise, hits = start(Setting()).eval(), random.Random(0), []
    digits = [1 + brackets.ALPHABET.index(each) for each in "012"]
    model.logits.weight.data *= torch.isin(torch.arange(16), torch.tensor(digits))[:, None]
    texts = [expression(depth, noise) for depth in (1, 2, 3) * 10]
    for text in texts:
        ids, values = encoded([text])
        hits.append(model.logits(model.decode(ids, None, None))[0, -1].argmax() == values[0, -1])
    assert 0 < right(model, texts) == sum(hits) / 30 < 1
