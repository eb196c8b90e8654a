"""Probes of words' heads: planted heads, a slow formula of the loss, control task, what is read."""

import pytest
import torch

from headbook.experiments import head_probe, read_off, word_labels
from headbook.experiments.head_probe import hits
from headbook.experiments.read_off import Sample
from headbook.experiments.word_maps import WordMaps
from headbook.text.trees import Tree

CHANCE = torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def of() -> Sample:
    return read_off.sample("ewt-sample", 90)


@pytest.fixture(scope="module")
def maps(of: Sample) -> list[WordMaps]:
    """Two heads: one looks at each word's head, the other anywhere; vectors say nothing."""
    found = []
    for each in of.trees:
        count = len(each)
        weights = torch.rand(2, count, count, generator=CHANCE)
        for word, head in enumerate(each.heads):
            weights[0, word, max(head, 0)] += 3
        vectors = torch.randn(count, 4, generator=CHANCE)
        found.append(WordMaps(each, weights, torch.zeros(2, count), vectors))
    return found


def test_the_control_task_depends_on_the_type_alone_and_never_on_the_word_itself():
    """Places of three hundred words, all different, in their sentence and in a longer one."""
    found = []
    for count in (300, 400):
        text = "".join(f"{at:04d}" for at in range(count))
        spans = tuple((4 * at, 4 * at + 4) for at in range(count))
        words = Tree(text, spans, (-1,) * count, ("dep",) * count)
        found.append([head_probe.control_head(words, word) for word in range(300)])
    assert all(place != word for word, place in enumerate(found[0]))
    assert 70 < found[0].count(0) < 130 and 70 < found[0].count(299) < 130
    assert [place == 0 for place in found[0]] == [place == 0 for place in found[1]]


def test_planted_heads_are_found_and_the_control_task_is_not(of: Sample, maps: list[WordMaps]):
    noise = [WordMaps(m.tree, torch.rand(m.weights.shape), m.special, m.vectors) for m in maps]
    found = {each[1:4]: each.replicates[0] for each in read_off.heads(of, maps, noise, True)}
    assert found["weights", "released", "task"] > 0.99 > found["weights", "drawn anew", "task"]
    assert found["best single head", "released", "task"] > 0.99
    assert found["weights", "released", "control task"] < 0.6
    assert found["distance", "none", "task"] < 0.5
    rows = word_labels.relations(of, maps, noise, 1).set_index("relation")
    assert set(rows["head"]) == {"L1H1"} and rows["value"].min() > 0.9 > rows["redrawn"].max()


def test_the_probe_joins_heads_that_each_find_half(of: Sample, maps: list[WordMaps]):
    """The one points at the heads of every other word, the other from those of the rest back."""
    halves = []
    for each in maps:
        weights = torch.rand(2, *each.weights.shape[1:], generator=CHANCE)
        weights[0, ::2], weights[1, :, 1::2] = each.weights[0, ::2], each.weights[0, 1::2].T
        halves.append(head_probe.both_ways(weights))
    parts = of.parts(halves)
    single = parts[2].by_feature().mean(0)
    assert min(single[0], single[3]) > 0.4 and single.max() < 0.75
    assert hits(parts).mean() > 0.9


def test_labels_that_weights_say_are_read(of: Sample, maps: list[WordMaps]):
    """A third head has a weight on each arc that its relation sets; vectors say nothing."""
    names = sorted({name.partition(":")[0] for each in of.trees for name in each.relations})
    told = []
    for m in maps:
        own = torch.zeros(len(names), *m.weights.shape[1:])
        for word in head_probe.asking(m.tree):
            name = m.tree.relations[word].partition(":")[0]
            own[names.index(name), word, m.tree.heads[word]] = 1
        told.append(WordMaps(m.tree, own, torch.zeros(len(names), len(m.tree)), m.vectors))
    found = {each[:4]: each.replicates[0] for each in word_labels.labels(of, told, "released")}
    assert found["relation", "weights", "released", "task"] > 0.9
    assert found["relation", "weights", "released", "control task"] < 0.5
    assert found["relation", "words", "none", "task"] < 0.3
