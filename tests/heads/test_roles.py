"""Known heads get exactly their role; thresholds and NaN do what they say."""

import known_heads as planted
import pytest
import torch
from torch import Tensor

from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import PositionalShare
from headbook.heads.random_head import random_heads
from headbook.heads.rare import RareShare
from headbook.heads.roles import Role, Thresholds, held_roles
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.types import Kind

NAN = float("nan")


def of_tape(corpus, ranks, batches, record) -> dict[Role, list[int]]:
    """All four measures over the batches, then the heads of the first layer with each role."""
    measures = [
        PositionalShare(Kind.ENCODER),
        SyntacticAccuracy(corpus.trees),
        OffsetShare(corpus.trees),
        RareShare(ranks),
    ]
    for batch in batches:
        tape = record(batch)
        for measure in measures:
            measure.update(tape, batch)
    found = held_roles(*(measure.sums().replicates() for measure in measures))
    return {role: held[0, 0].nonzero().flatten().tolist() for role, held in found.items()}


def test_known_heads_are_classified_exactly(ladder, ranks) -> None:
    def record(batch):
        plain = [planted.at_offset(batch, offset) for offset in (0, -1, 1, -2, 2)]
        none = [planted.uniform(batch), planted.at_first(batch), planted.at_eos(batch)]
        partners = [planted.at_partner(batch, ladder.trees, column) for column in range(8)]
        rarest = [planted.at_rarest(batch, ranks)]
        return planted.recording(plain + none + partners + rarest)

    found = of_tape(ladder, ranks, [ladder.batch(list(range(20)))], record)
    # looking at the own token or two away is no role
    assert found == {
        Role.POSITIONAL: [1, 2],
        Role.SYNTACTIC: [8 + column for column in range(8)],
        Role.RARE: [16],
    }


def test_random_heads_have_no_role(corpus, ranks) -> None:
    batches = [corpus.batch(list(range(start, start + 20))) for start in (0, 20, 40)]
    record = lambda batch: random_heads(batch, Kind.ENCODER, heads=8)  # noqa: E731
    found = of_tape(corpus, ranks, batches, record)
    assert not found[Role.POSITIONAL] and not found[Role.RARE]


def of_one(
    neighbours: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0),
    syntactic: float = 0.0,
    rare: tuple[float, float] = (0.0, 0.0),
    offsets: Tensor | None = None,
) -> set[Role]:
    """The roles of one head, with shares at offsets -2 to +2; one syntactic score, in column 0,
    over a best offset of .35."""
    accuracy = torch.zeros(1, 1, 1, 8)
    accuracy[..., 0] = syntactic
    offsets = (
        torch.tensor([0.1, 0.35])[None, :, None].repeat(1, 1, 8) if offsets is None else offsets
    )
    positional, rarest = torch.tensor(neighbours), torch.tensor(rare)
    found = held_roles(positional[None, None, None], accuracy, offsets, rarest[None, None, None])
    return {role for role, held in found.items() if held.item()}


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ({"neighbours": (0.0, 0.91, 0.0, 0.0, 0.0)}, {Role.POSITIONAL}),
        ({"neighbours": (0.0, 0.0, 0.0, 0.91, 0.0)}, {Role.POSITIONAL}),
        ({"neighbours": (0.0, 0.89, 0.0, 0.0, 0.0)}, set()),
        ({"neighbours": (0.99, 0.0, 0.99, 0.0, 0.99)}, set()),
        ({"syntactic": 0.46}, {Role.SYNTACTIC}),
        ({"syntactic": 0.44}, set()),  # +26 % of the baseline, but 9 percentage points
        ({"rare": (0.2, 0.51)}, {Role.RARE}),
        ({"rare": (0.49, 0.49)}, set()),
        ({"neighbours": (NAN,) * 5, "syntactic": NAN, "rare": (NAN, NAN)}, set()),
    ],
)
def test_thresholds(given, held) -> None:
    assert of_one(**given) == held


def test_a_head_may_have_several_roles() -> None:
    several = of_one(neighbours=(0.0, 0.95, 0.0, 0.0, 0.0), syntactic=0.9, rare=(0.6, 0.7))
    assert several == set(Role)


def test_stricter_thresholds_only_take_away_in_every_replicate() -> None:
    torch.manual_seed(0)
    given = (torch.rand(3, 2, 3, 5), torch.rand(3, 2, 3, 8), torch.rand(3, 41, 8) / 2)
    given = (*given, torch.rand(3, 2, 3, 2))
    loose = held_roles(*given, Thresholds(0.5, 0.05, 0.4))
    strict = held_roles(*given, Thresholds(0.8, 0.4, 0.7))
    for role, held in strict.items():
        assert not (held & ~loose[role]).any() and held.sum() < loose[role].sum()
