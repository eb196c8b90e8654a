"""Nested arithmetic: values by hand, sets that never meet, equal parameters."""

import pytest
import torch

from headbook.experiments import brackets
from headbook.experiments.brackets import NO_VALUE, Setting, encoded, right, start


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
    training = brackets.training_set(0, 600)
    for depth, texts in brackets.held_out().items():
        assert texts and len(texts) == len(set(texts)) and not set(texts) & set(training)
        for text in texts:
            opened = [text[:at].count("(") - text[:at].count(")") for at in range(len(text))]
            assert max(opened) == depth and len(text) <= 17


def test_an_answer_is_read_at_the_last_bracket() -> None:
    model, texts = start(Setting()).eval(), ["(0+2)", "(2*0)", "((1+1)+1)", "(1+1)"]
    ids, values = encoded(texts)
    with torch.inference_mode():
        ends = [(row, len(text) - 1) for row, text in enumerate(texts)]
        logits = [model.logits(model.decode(ids[[row], : end + 1], None, None)[0, -1])
                  for row, end in ends]  # fmt: skip
    hits = [each.argmax() == values[at] for each, at in zip(logits, ends, strict=True)]
    assert right(model, texts) == sum(hits) / 4
