"""The probe of heads of words: planted heads, a slow formula of its loss, the control task."""

import math

import pytest
import torch

from headbook.heads.head_probe import (
    Pairs,
    both_ways,
    chosen,
    column_hits,
    control_heads,
    distances,
    fit,
    offset_hits,
    pairs,
)
from headbook.types import UserError

CHANCE = torch.Generator().manual_seed(0)


def sentences(count: int, length: int = 6) -> tuple[list, list, list]:
    """Random weights of three heads, in which the first points at each word's head half the time
    and the second, from the head back, otherwise."""
    maps, asking, heads = [], [], []
    for _ in range(count):
        weights = torch.rand(3, length, length, generator=CHANCE)
        own = torch.randint(length, (length,), generator=CHANCE)
        own = torch.where(own == torch.arange(length), (own + 1) % length, own)
        for word, head in enumerate(own.tolist()):
            if torch.rand(1, generator=CHANCE) < 0.5:
                weights[0, word, head] += 2
            else:
                weights[1, head, word] += 2
        maps.append(both_ways(weights))
        asking.append(list(range(length)))
        heads.append(own.tolist())
    return maps, asking, heads


def test_a_pair_holds_weights_both_ways_and_no_word_chooses_itself():
    weights = torch.arange(9.0).reshape(1, 3, 3)
    found = pairs([both_ways(weights)], [[0, 2]], [[1, 0]])
    assert found.features.tolist() == [[1, 3], [2, 6], [6, 2], [7, 5]]
    assert found.place.tolist() == [1, 2, 0, 1]
    assert found.question.tolist() == [0, 0, 1, 1]
    assert found.matrix(found.features[:, 0]).tolist()[1] == [6, 7, -math.inf]


def test_the_probe_joins_heads_that_each_find_half():
    planted, held = pairs(*sentences(60)), pairs(*sentences(40))
    single = column_hits(held).mean(0)
    found = chosen(planted, held, (None, None), (1e-4,)).hits(held).mean()
    assert single[0] > 0.4 and single[4] > 0.4 and single.max() < 0.75
    assert found > 0.9


def test_shuffled_answers_are_found_at_chance():
    planted = pairs(*sentences(60))
    _, _, other = sentences(60)
    shuffled = planted.answered(other)
    held = pairs(*sentences(40)).answered(sentences(40)[2])
    assert fit(shuffled, None, 1e-3).hits(held).mean() < 0.35


def slow_loss(given: Pairs, weights: list, vectors: torch.Tensor, penalty: float) -> float:
    """The same loss, pair by pair, from the equation in the module."""
    scale = given.features.std(0)
    total = 0.0
    for question, right in enumerate(given.right.tolist()):
        scores = {}
        for row in (given.question == question).nonzero().flatten().tolist():
            score = 0.0
            for k, value in enumerate((given.features[row] / scale).tolist()):
                ends = [*vectors[given.asking[row]], *vectors[given.candidate[row]]]
                for end, weight in zip(ends, weights[1][:, k], strict=True):
                    score += value * float(end * weight)
                score += value * float(weights[0][k])
            scores[int(given.place[row])] = score
        total -= scores[right] - math.log(sum(map(math.exp, scores.values())))
    squares = sum(float((each**2).sum()) for each in weights)
    return total / len(given.right) + penalty * squares


def test_the_fitted_weights_are_least_by_a_slow_formula():
    given = pairs(*sentences(4, length=4))
    vectors = torch.randn(16, 2, generator=CHANCE)
    found = list(fit(given, vectors, 0.1).weights)
    least = slow_loss(given, found, vectors, 0.1)
    for _ in range(5):
        moved = [each + 0.05 * torch.randn(each.shape, generator=CHANCE) for each in found]
        assert slow_loss(given, moved, vectors, 0.1) > least


def test_an_offset_is_found_at_its_distance_only():
    given = pairs([distances(4)], [[0, 1, 2]], [[1, 2, 0]])
    assert offset_hits(given, 1).tolist() == [1, 1, 0]
    assert offset_hits(given, -2).tolist() == [0, 0, 1]


def test_the_control_task_depends_on_the_type_alone_and_never_on_the_word_itself():
    forms = [["a", "b", "c", "a"], ["c", "a", "b", "d", "e"]]
    found = control_heads(forms, [[0, 1, 2, 3], [0, 1, 2, 3, 4]])
    assert all(place != word for row in found for word, place in enumerate(row))
    assert control_heads(forms[1:], [[2]])[0] == [found[1][2]]
    many = [[f"w{n}" for n in range(300)]]
    places = control_heads(many, [list(range(1, 299))])[0]
    assert 70 < places.count(0) < 130 and 70 < places.count(299) < 130


def test_a_text_in_which_no_word_asks_is_refused():
    with pytest.raises(UserError, match="no word has a head"):
        pairs([distances(3)], [[]], [[]])
