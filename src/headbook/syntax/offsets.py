"""Positions of dependents relative to their heads, and accuracy of predicting by them alone.

Figure 3 and the baseline of Table 1 in Voita et al. 2019, both in words.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from headbook.trees import RELATIONS, Direction, Tree
from headbook.types import UserError


@dataclass(frozen=True)
class OffsetCount:
    """So many arcs of a relation have their dependent `offset` words after the head."""

    relation: str
    offset: int
    count: int


def offsets(trees: Iterable[Tree]) -> list[OffsetCount]:
    """One row per relation and offset (dependent's position minus head's), in order."""
    counts = Counter(
        (RELATIONS.index(arc.relation), arc.offset)
        for tree in trees
        for arc in tree.arcs()
        if arc.relation in RELATIONS
    )
    return [
        OffsetCount(RELATIONS[relation], offset, counts[relation, offset])
        for relation, offset in sorted(counts)
    ]


def most_frequent_offset(trees: Iterable[Tree], relation: str, direction: Direction) -> int:
    """The offset, key minus query in words, at which the partner stands most often.

    Among equals the nearest, then the one before. Raises UserError when no tree has the relation.
    """
    counts = _partners(trees, relation, direction)
    return min(counts, key=lambda offset: (-counts[offset], abs(offset), offset))


def baseline_accuracy(
    fitted: Iterable[Tree], scored: Iterable[Tree], relation: str, direction: Direction
) -> float:
    """The share of arcs in `scored` found by pointing at the most frequent offset of `fitted`.

    Every arc counts once, so both directions have one baseline, as in the paper's Table 1.
    """
    offset = most_frequent_offset(fitted, relation, direction)
    counts = _partners(scored, relation, direction)
    return counts[offset] / counts.total()


def _partners(trees: Iterable[Tree], relation: str, direction: Direction) -> Counter[int]:
    """Number of arcs with the key at each offset from the query."""
    sign = 1 if direction is Direction.HEAD_TO_DEPENDENT else -1
    counts = Counter(
        sign * arc.offset for tree in trees for arc in tree.arcs() if arc.relation == relation
    )
    if not counts:
        raise UserError(f"no {relation} in the trees given; is their label scheme a known one?")
    return counts
