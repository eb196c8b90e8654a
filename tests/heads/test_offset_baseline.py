"""The positional baseline of a relation, on arcs that stand where we put them."""

import pytest
import torch

from headbook.heads.bootstrap import half_of
from headbook.heads.measure import Selection
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.text.alignment import AlignedTree
from headbook.text.batches import EOS, collate
from headbook.text.trees import RELATIONS


def sentence(dependent: int, head: int, relation: str = "nsubj") -> AlignedTree:
    """Six words, the second of two pieces, one arc."""
    arcs = torch.tensor([[RELATIONS.index(relation), dependent, head]])
    return AlignedTree(torch.tensor([0, 1, 1, 2, 3, 4, 5, -1]), arcs, 0)


def batch_of(count: int):
    return collate([([*range(3, 10), EOS], [3, EOS])] * count, list(range(count)))


def share(trees, reach=20) -> OffsetShare:
    measure = OffsetShare(trees, reach)
    measure.update({}, batch_of(len(trees)))
    return measure


def test_offset_is_partner_minus_query_in_words() -> None:
    trees = [sentence(0, 2)] * 3 + [sentence(4, 3)]
    best = offset_baseline(share(trees).sums(), Selection.EVERYTHING)
    # head to dependent: -2 in three of four; dependent to head: +2
    assert best.offset[:2].tolist() == [-2, 2]
    assert best.accuracy[:2].tolist() == [0.75, 0.75]
    assert best.accuracy[2:].isnan().all()


def test_histogram_sums_to_one_over_the_offsets() -> None:
    found = share([sentence(0, 2), sentence(4, 3), sentence(5, 0)]).compute()
    assert found.shape == (41, 8) and torch.allclose(found[:, 0].sum(), torch.tensor(1.0).double())
    assert found[20 + 5, 0] == found[20 - 2, 0] == pytest.approx(1 / 3)


def test_arcs_beyond_reach_count_as_missed() -> None:
    best = offset_baseline(
        share([sentence(0, 5), sentence(0, 1)], reach=2).sums(), Selection.EVERYTHING
    )
    assert best.accuracy[0] == 0.5


def test_baseline_is_chosen_on_one_half() -> None:
    halves = half_of(torch.arange(40)).tolist()
    trees = [sentence(0, 1) if half == 0 else sentence(0, 2) for half in halves]
    best = offset_baseline(share(trees).sums())
    assert best.offset[0] == -1 and best.chosen[0] == 1 and best.accuracy[0] == 0
    everything = offset_baseline(share(trees).sums(), Selection.EVERYTHING)
    assert 0.3 < everything.low[0] < everything.accuracy[0] < everything.high[0] < 0.9
