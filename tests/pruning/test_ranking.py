"""A random order of heads."""

from headbook.pruning.ranking import random_order
from headbook.types import HeadId, Kind

HEADS = [HeadId(kind, layer, head) for kind in Kind for layer in range(3) for head in range(4)]


def test_a_random_order_depends_on_its_seed_alone() -> None:
    order = random_order(HEADS, 3)
    assert sorted(order) == sorted(HEADS)
    assert order == random_order(reversed(HEADS), 3)
    assert order != random_order(HEADS, 4)
    assert order != tuple(sorted(HEADS))
