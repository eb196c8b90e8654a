"""Labels of the tasks on sets are what a slow formula gives."""

import pytest
import torch

from headbook.corpora.sets import convex_hull, following, memorising, sorting, task
from headbook.types import UserError


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_labels_of_sorting_are_the_sorted_digits():
    rows = sorting(20, drawn())
    digits = rows.inputs.argmax(-1)
    assert rows.labels.tolist() == [sorted(each) for each in digits.tolist()]
    assert (rows.inputs.sum(-1) == 1).all()


def test_a_point_is_on_the_hull_where_all_others_lie_on_one_side_of_a_line_through_it():
    rows = convex_hull(20, drawn())
    for points, labels in zip(rows.inputs.double(), rows.labels, strict=True):
        for number, own in enumerate(labels.tolist()):
            others = torch.cat([points[:number], points[number + 1 :]]) - points[number]
            turns = others[:, :1] * others[None, :, 1] - others[:, 1:] * others[None, :, 0]
            outside = (turns >= -1e-9).all(1).any()
            assert bool(outside) is bool(own)


def test_what_is_memorised_is_always_the_same():
    first, second = memorising(500, drawn(1)), memorising(500, drawn(2))
    known = {str(row.argmax(-1).tolist()): labels.tolist()
             for row, labels in zip(first.inputs, first.labels, strict=True)}  # fmt: skip
    again = [(known.get(str(row.argmax(-1).tolist())), labels.tolist())
             for row, labels in zip(second.inputs, second.labels, strict=True)]  # fmt: skip
    met = [(one, other) for one, other in again if one is not None]
    assert len(met) > 450 and all(one == other for one, other in met)


def test_pointers_are_followed_three_times():
    rows = following(5, drawn())
    for pointers, labels in zip(rows.inputs.argmax(-1).tolist(), rows.labels.tolist(), strict=True):
        assert labels == [pointers[pointers[first]] for first in pointers]


def test_an_unknown_task_is_refused_in_one_line():
    with pytest.raises(UserError, match="no task is called 'sort'; there are sorting, convex hull"):
        task("sort")
