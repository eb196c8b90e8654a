"""Generated arithmetic: values by Python's own eval, depths by counting, splits that never meet."""

import random

import pytest

from headbook.corpora.brackets import Arithmetic, depth_of, is_held_out
from headbook.types import UserError

SMALL = Arithmetic(modulus=3, longest=17)


@pytest.mark.parametrize("modulus", [2, 3, 5, 10])
def test_values_of_all_brackets_are_pythons(modulus):
    arithmetic, drawn = Arithmetic(modulus, 25), random.Random(0)
    for number in range(200):
        text = arithmetic.expression(1 + number % 4, drawn)
        open_ = []
        for place, (character, value) in enumerate(zip(text, arithmetic.values(text), strict=True)):
            if character == "(":
                open_.append(place)
            if character == ")":
                assert value == eval(text[open_.pop() : place + 1]) % modulus
            else:
                assert value is None


def test_expressions_are_as_deep_as_asked_and_fit():
    drawn = random.Random(1)
    for depth in (1, 2, 3, 4):
        found = [SMALL.expression(depth, drawn) for _ in range(100)]
        assert {depth_of(each) for each in found} == {depth}
        assert max(map(len, found)) <= 17
    assert depth_of("((1+2)*3)") == 2 and depth_of("7") == 0


def test_what_is_trained_on_is_never_held_out_at_any_depth():
    drawn = random.Random(2)
    for depth in (1, 2, 3):
        training = {SMALL.training(depth, drawn) for _ in range(300)}
        tests = SMALL.held_out(depth, 50, random.Random(0))
        assert tests and len(tests) == len(set(tests)) and not training & set(tests)
        assert all(map(is_held_out, tests)) and {depth_of(each) for each in tests} == {depth}


def test_what_cannot_be_generated_or_read_is_refused():
    for depth in (0, 5):
        with pytest.raises(UserError, match="give 1 to 4 for 17 characters"):
            SMALL.expression(depth, random.Random(0))
    for modulus in (1, 11):
        with pytest.raises(UserError, match="give 2 to 10"):
            Arithmetic(modulus)
    for text in ("(1+2", "1+2", "(1+2+3)", "(1)", "", ")", "(a+1)", "(1/2)"):
        with pytest.raises(UserError, match="no expression"):
            SMALL.values(text)
