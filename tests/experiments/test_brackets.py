"""Nested arithmetic: values by hand, sets that never meet, equal parameters, a loss that falls."""

import random

import pytest
import torch

from headbook.experiments import brackets
from headbook.experiments.brackets import NO_VALUE, Setting, encoded, expression, right, start
from headbook.models.binding import Roles
from headbook.text.batches import PAD


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("(1+2)", [0]), ("(0-2)", [1]), ("((1+1)*2)", [2, 1]), ("((0-1)*((2*2)-2))", [2, 1, 2, 1])],
)
def test_values_of_all_brackets_by_hand(text: str, wanted: list[int]) -> None:
    found = brackets.values(text)
    assert [each for each in found if each is not None] == wanted
    assert [each is not None for each in found] == [each == ")" for each in text]


def test_expressions_are_as_deep_as_asked_and_fit() -> None:
    noise = random.Random(1)
    for depth in (1, 2, 3, 4):
        for text in (expression(depth, noise) for _ in range(100)):
            opened = [text[:at].count("(") - text[:at].count(")") for at in range(len(text))]
            assert max(opened) == depth and len(text) <= 17


def test_training_and_test_sets_do_not_meet() -> None:
    training, tests = brackets.training_set(0, 600), brackets.held_out()
    for depth, texts in tests.items():
        assert texts and len(texts) == len(set(texts)) and not set(texts) & set(training), depth
    assert len(training) == 600 and brackets.training_set(1, 600) != training


def test_models_have_as_many_parameters_and_plain_ones_never_fewer() -> None:
    counts = {
        roles: sum(each.numel() for each in start(Setting(roles)).parameters()) for roles in Roles
    }
    assert 0 <= counts[Roles.NONE] - counts[Roles.QUERY] < 0.01 * counts[Roles.QUERY]
    assert 0 < counts[Roles.CONSTANT] - counts[Roles.NONE] < 0.01 * counts[Roles.QUERY]


def test_a_value_stands_at_its_closing_bracket_and_nowhere_else() -> None:
    ids, wanted = encoded(["((1+2)*2)", "(2-1)"])
    assert (wanted != NO_VALUE).nonzero().tolist() == [[0, 5], [0, 8], [1, 4]]
    assert ids[1, 5:].eq(PAD).all() and wanted[0, 5] == wanted[0, 8] == ids[1, 3] - 1


def test_an_answer_is_read_at_the_last_bracket() -> None:
    model, texts = start(Setting()).eval(), ["(0+2)", "(2*0)", "((1+1)+1)", "(1+1)"]
    ids, values = encoded(texts)
    hits = 0
    with torch.inference_mode():
        for row, text in enumerate(texts):
            logits = model.logits(model.decode(ids[[row], : len(text)], None, None)[0, -1])
            hits += bool(logits.argmax() == values[row, len(text) - 1])
    assert right(model, texts) == hits / 4


def test_a_training_learns_the_shallow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brackets, "TESTED", 50)
    first, last = (brackets.train(Setting(updates=each, width=16), 300) for each in (2, 150))
    assert last[0]["loss"] < 0.8 * first[0]["loss"]
    assert [row["depth"] for row in last] == [1, 2, 3, 4]
    assert all(0 < row["majority"] < 1 for row in last)
