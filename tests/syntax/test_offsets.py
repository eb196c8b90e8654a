"""Offsets of dependents and the positional baseline, against counts done by hand."""

import pandas
import pytest

from headbook.corpora.controlled import TargetOrder, split
from headbook.syntax.offsets import OffsetCount, baseline_accuracy, most_frequent_offset, offsets
from headbook.trees import RELATION_DIRECTIONS, RELATIONS, ROOT, Direction, Tree
from headbook.types import UserError

BOTH = list(Direction)


def tree(heads: tuple[int, ...], relations: tuple[str, ...]) -> Tree:
    words = tuple((2 * at, 2 * at + 1) for at in range(len(heads)))
    return Tree(" ".join("w" * len(heads)), words, heads, relations)


NEAR = tree((1, ROOT, 1), ("nsubj", "root", "dobj"))
FAR = tree((2, 0, ROOT, 4, 2), ("nsubj", "punct", "root", "amod", "dobj"))


def test_offsets_are_counted_for_each_relation_in_order():
    assert offsets([NEAR, FAR, NEAR]) == [
        OffsetCount("nsubj", -2, 1),
        OffsetCount("nsubj", -1, 2),
        OffsetCount("dobj", 1, 2),
        OffsetCount("dobj", 2, 1),
        OffsetCount("amod", -1, 1),
    ]


def test_rows_make_a_tidy_table():
    table = pandas.DataFrame(offsets([NEAR, FAR]))
    assert list(table.columns) == ["relation", "offset", "count"]
    assert table["count"].sum() == 5


def test_the_most_frequent_offset_is_key_minus_query():
    trees = [NEAR, FAR, FAR]
    assert most_frequent_offset(trees, "nsubj", Direction.HEAD_TO_DEPENDENT) == -2
    assert most_frequent_offset(trees, "nsubj", Direction.DEPENDENT_TO_HEAD) == 2
    assert most_frequent_offset(trees, "dobj", Direction.HEAD_TO_DEPENDENT) == 2


def test_among_equals_the_nearest_wins_whatever_the_order():
    for trees in ([NEAR, FAR], [FAR, NEAR]):
        assert most_frequent_offset(trees, "nsubj", Direction.HEAD_TO_DEPENDENT) == -1


@pytest.mark.parametrize("direction", BOTH)
def test_the_baseline_is_chosen_on_one_list_and_scored_on_another(direction: Direction):
    fitted, scored = [NEAR, NEAR, FAR], [NEAR, FAR, FAR, FAR]
    assert baseline_accuracy(fitted, scored, "nsubj", direction) == 1 / 4
    assert baseline_accuracy(scored, fitted, "nsubj", direction) == 1 / 3
    assert baseline_accuracy(scored, scored, "nsubj", direction) == 3 / 4


def test_a_relation_that_is_not_there_is_told():
    with pytest.raises(UserError, match="advmod"):
        most_frequent_offset([NEAR, FAR], "advmod", Direction.HEAD_TO_DEPENDENT)


def test_the_controlled_corpus_leaves_room_above_the_baseline():
    """Measured at seed 0: nsubj 51 %, dobj 37 %, amod 77 %, advmod 54 %, both directions alike."""
    train, _, test = split(TargetOrder.SOV, train=800, valid=10, test=400)
    accuracy = {
        pair: baseline_accuracy(train.trees, test.trees, *pair) for pair in RELATION_DIRECTIONS
    }
    bounds = dict(zip(RELATIONS, ((0.4, 0.6), (0.3, 0.45), (0.7, 0.85), (0.45, 0.65)), strict=True))
    for (relation, _direction), value in accuracy.items():
        low, high = bounds[relation]
        assert low < value < high, relation


def test_the_controlled_corpus_spreads_subjects_and_objects():
    train, _, _ = split(TargetOrder.SVO, train=500, valid=1, test=1)
    rows = [row for row in offsets(train.trees) if row.count >= 5]
    assert len([row for row in rows if row.relation == "nsubj"]) >= 6
    assert {row.offset > 0 for row in rows if row.relation == "dobj"} == {True, False}
    assert {row.offset > 0 for row in rows if row.relation == "advmod"} == {True, False}
