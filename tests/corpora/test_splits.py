import hashlib
import random
from collections import Counter

import pytest

from headbook.corpora.pairs import Reason
from headbook.corpora.splits import key, place, split
from headbook.types import UserError

PAIRS = [(f"Sentence number {index}.", f"Satz {index}.") for index in range(40)]
SIZES = {"test": 5, "valid": 6}
ORDER = sorted((line for line, _ in PAIRS), key=lambda line: place(key(line)))


def test_the_key_drops_case_punctuation_and_spare_spaces_only():
    assert key("  Don't -- say: «Hello»,  World!") == "dont say hello world"
    assert key("Room 12") != key("Room 13")
    assert key("a + b") != key("a b")


def test_the_order_is_sha256_of_the_key_whatever_order_pairs_come_in():
    found = split(random.Random(1).sample(PAIRS, len(PAIRS)), set(), Counter(), **SIZES)
    order = sorted(
        (line for line, _ in PAIRS),
        key=lambda line: hashlib.sha256(line.lower().replace(".", "").encode()).hexdigest(),
    )
    assert [*found["test"].source, *found["valid"].source, *found["train"].source] == order
    assert [len(part) for part in found.values()] == [29, 6, 5]


def test_an_evaluation_group_gives_one_pair_and_a_training_group_all_without_repeats():
    first, last, dropped = ORDER[0], ORDER[-1], Counter()
    twice = [(first.upper(), "anders"), (last.upper(), "anders"), (last.upper(), "anders")]
    found = split([*PAIRS, *twice], set(), dropped, **SIZES)
    assert first in found["test"].source and first.upper() not in found["test"].source
    assert found["train"].source[-2:] == (last, last.upper())
    assert +dropped == {Reason.SAME_GROUP: 1, Reason.REPEATED: 1}


def test_evaluation_sentences_of_other_corpora_leave_the_training_split_only():
    held_out, dropped = {key(ORDER[0]), key(ORDER[11].upper()), key(ORDER[18])}, Counter()
    found = split(PAIRS, held_out, dropped, **SIZES)
    assert [*found["test"].source, *found["valid"].source] == ORDER[:11]
    assert list(found["train"].source) == [line for line in ORDER[12:] if line != ORDER[18]]
    assert +dropped == {Reason.IN_EVALUATION: 2}


def test_the_cap_keeps_the_first_training_pairs_after_removal():
    plain, capped = (split(iter(PAIRS), set(), Counter(), cap, **SIZES) for cap in (0, 4))
    assert capped == {**plain, "train": plain["train"].first(4)}
    alone = split(iter(PAIRS), {key(ORDER[0]), key(ORDER[2])}, Counter(), 3, test=0, valid=0)
    assert list(alone["train"].source) == [ORDER[1], ORDER[3], ORDER[4]]


def test_too_few_sentences_to_split_is_one_clear_line():
    with pytest.raises(UserError, match="11 different English sentences are too few"):
        split(PAIRS[:11], set(), Counter(), **SIZES)
