"""The ridge probe and its control task: planted labels, shuffled ones, types."""

import numpy as np
from refusing import refuses

from headbook.layers.probe import control, divided, hits_of, majority

CHANCE = np.random.default_rng(0)


def planted(count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    labels = CHANCE.choice(["a", "b", "c"], count)
    centres = {"a": (3, 0), "b": (0, 3), "c": (-3, -3)}
    features = np.array([centres[label] for label in labels]) + CHANCE.normal(size=(count, 2))
    return np.hstack([features, CHANCE.normal(size=(count, 5))]), labels


def test_planted_labels_are_found_and_shuffled_ones_are_not():
    features, labels = planted()
    split = divided(600, 200)
    assert hits_of(features, [labels], split)[0].mean() > 0.9
    shuffled = CHANCE.permutation(labels)
    assert hits_of(features, [shuffled], split)[0].mean() < majority(shuffled, split).mean() + 0.1


def test_the_three_parts_share_no_item_and_leave_none_out():
    split = divided(100, 30)
    parts = [set(each.tolist()) for each in vars(split).values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 100
    assert min(parts[2]) == 70
    groups = np.array([0, 0, 69, 70, 99, 99])
    assert split.of(groups).scored.tolist() == [3, 4, 5]


def test_labels_of_many_types_come_as_often_as_labels_occur():
    labels = np.array(["a"] * 3000 + ["b"] * 1000)
    drawn = control([f"w{n}" for n in range(4000)], labels)
    assert abs((drawn == "b").mean() - 0.25) < 0.03


def test_too_few_sentences_are_refused():
    refuses(lambda: divided(6, 3), "more sentences")
    one_label = np.ones((20, 1)), [np.array(["a"] * 20)], divided(20, 5)
    refuses(lambda: hits_of(*one_label), "two different labels")
