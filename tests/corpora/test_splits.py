import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headbook.corpora.pairs import Pairs
from headbook.corpora.report import Reason, Report
from headbook.corpora.splits import Rule, key, place, split, train
from headbook.types import UserError

PAIRS = [(f"Sentence number {index}.", f"Satz {index}.") for index in range(40)]
RULE = Rule(test=5, valid=6)


def english(pairs: Pairs) -> list[str]:
    return list(pairs.source)


def test_the_key_drops_case_punctuation_and_spare_spaces_only():
    assert key("  Don't -- say: «Hello»,  World!") == "dont say hello world"
    assert key("Room 12") != key("Room 13")
    assert key("a + b") != key("a b")


def test_the_order_is_sha256_of_the_key():
    found = split(PAIRS, RULE, set(), Report())
    order = sorted(
        (line for line, _ in PAIRS),
        key=lambda line: hashlib.sha256(line.lower().replace(".", "").encode()).hexdigest(),
    )
    assert english(found["test"]) == order[:5]
    assert english(found["valid"]) == order[5:11]
    assert english(found["train"]) == order[11:]


@given(st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.sampled_from("xyz")), max_size=60))
def test_no_english_sentence_is_in_two_splits_and_every_pair_is_accounted_for(letters):
    pairs = [*PAIRS, *((f"{left}!", right) for left, right in letters)]
    report = Report()
    found = split(pairs, RULE, set(), report)
    keys = [{key(line) for line in part.source} for part in found.values()]
    assert not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]
    assert sum(map(len, found.values())) + sum(report.dropped.values()) == len(pairs)


def test_the_split_does_not_depend_on_the_order_of_distinct_sentences():
    shuffled = random.Random(1).sample(PAIRS, len(PAIRS))
    assert split(shuffled, RULE, set(), Report()) == split(PAIRS, RULE, set(), Report())


def test_an_evaluation_group_gives_one_pair_and_a_training_group_all():
    first = min((line for line, _ in PAIRS), key=lambda line: place(key(line)))
    last = max((line for line, _ in PAIRS), key=lambda line: place(key(line)))
    report = Report()
    twice = [(first.upper(), "anders"), (last.upper(), "anders")]
    found = split([*PAIRS, *twice], RULE, set(), report)
    assert english(found["test"]).count(first) == 1 and first.upper() not in english(found["test"])
    assert english(found["train"])[-2:] == [last, last.upper()]
    assert report.total(Reason.SAME_GROUP) == 1


def test_repeated_pairs_are_dropped_and_counted():
    report = Report()
    found = split([*PAIRS, *PAIRS[:3]], RULE, set(), report)
    assert sum(map(len, found.values())) == len(PAIRS)
    assert report.total(Reason.REPEATED) == 3


def test_evaluation_sentences_of_other_corpora_leave_the_training_split_only():
    plain = split(PAIRS, RULE, set(), Report())
    gone = [plain["train"].source[0], plain["train"].source[7]]
    held_out = {key(line.upper()) for line in [*gone, plain["test"].source[0]]}
    report = Report()
    found = split(PAIRS, RULE, held_out, report)
    assert found["test"] == plain["test"] and found["valid"] == plain["valid"]
    assert set(plain["train"].source) - set(found["train"].source) == set(gone)
    assert report.total(Reason.IN_EVALUATION) == 2


def test_the_cap_keeps_the_first_training_pairs():
    plain = split(PAIRS, RULE, set(), Report())
    capped = split(iter(PAIRS), Rule(test=5, valid=6, cap=4), set(), Report())
    assert capped["train"] == plain["train"].first(4)
    assert capped["test"] == plain["test"] and capped["valid"] == plain["valid"]


def test_training_pairs_alone_are_in_the_same_order_and_capped_after_removal():
    order = sorted((line for line, _ in PAIRS), key=lambda line: place(key(line)))
    report = Report()
    found = train(iter(PAIRS), 3, {key(order[0]), key(order[2])}, report)
    assert english(found) == [order[1], order[3], order[4]]
    assert report.total(Reason.IN_EVALUATION) == 2


def test_too_few_sentences_to_split_is_one_clear_line():
    with pytest.raises(UserError, match="11 different English sentences are too few"):
        split(PAIRS[:11], RULE, set(), Report())
