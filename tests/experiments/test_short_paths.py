"""Labels are what a slow formula gives; a network that has learnt answers from all its paths."""

import torch

from headbook.experiments.short_paths import (
    LAYERS,
    answers,
    convex_hull,
    following,
)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_point_is_on_the_hull_where_all_others_lie_on_one_side_of_a_line_through_it():
    for points, labels in zip(*convex_hull(20, drawn()), strict=True):
        points = points.double()
        for number, own in enumerate(labels.tolist()):
            others = torch.cat([points[:number], points[number + 1 :]]) - points[number]
            turns = others[:, :1] * others[None, :, 1] - others[:, 1:] * others[None, :, 0]
            outside = (turns >= -1e-9).all(1).any()
            assert bool(outside) is bool(own)


def test_pointers_are_followed_three_times():
    inputs, labels = following(5, drawn())
    for pointers, found in zip(inputs.argmax(-1).tolist(), labels.tolist(), strict=True):
        assert found == [pointers[pointers[first]] for first in pointers]


def test_what_is_learnt_is_answered_by_all_lengths_together_and_by_no_untrained_network():
    found = answers("sorting", seed=0, updates=60, tested=60, draws=1)
    right = found.set_index(["by", "length"])["right"]
    assert right["whole", -1] > 2 * right["whole, untrained", -1]
    assert right["whole", -1] > 2 * right["most frequent", -1]
    for name in ("", ", untrained"):
        assert right[f"up to{name}", LAYERS] == right[f"whole{name}", -1]
        assert right[f"up to{name}", 0] == right[f"held{name}", 0] == right[f"along{name}", 0]
        assert right[f"without{name}", LAYERS] == right[f"up to{name}", LAYERS - 1]
