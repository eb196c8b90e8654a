"""Known heads get exactly their role; thresholds, NaN and precedence do what they say."""

import pytest
import torch

from headbook.heads import planted
from headbook.heads.measure import Selection
from headbook.heads.offset_baseline import OffsetShare, offset_baseline
from headbook.heads.positional import PositionalShare
from headbook.heads.random_head import random_heads
from headbook.heads.rare import RareShare
from headbook.heads.roles import HeadRole, Role, Thresholds, candidates, held_roles, roles
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.trees import RELATION_DIRECTIONS
from headbook.types import Kind

OFFSETS = torch.tensor([-2, -1, 0, 1, 2])


def of_tape(corpus, ranks, batches, record) -> list[HeadRole]:
    """All four measures over the batches, then roles."""
    positional, rare = PositionalShare(Kind.ENCODER), RareShare(ranks)
    syntactic, offsets = SyntacticAccuracy(corpus.trees), OffsetShare(corpus.trees)
    for batch in batches:
        tape = record(batch)
        for measure in (positional, rare, syntactic, offsets):
            measure.update(tape, batch)
    baseline = offset_baseline(offsets.sums(), Selection.EVERYTHING).accuracy
    return roles(
        positional.compute(), positional.offsets, syntactic.compute(), baseline, rare.compute()
    )


def test_known_heads_are_classified_exactly(ladder, ranks) -> None:
    def record(batch):
        plain = [planted.at_offset(batch, offset) for offset in (0, -1, 1, -2, 2)]
        none = [planted.uniform(batch), planted.at_first(batch), planted.at_eos(batch)]
        partners = [planted.at_partner(batch, ladder.trees, column) for column in range(8)]
        rarest = [planted.at_rarest(batch, ranks)]
        return planted.recording(plain + none + partners + rarest)

    found = of_tape(ladder, ranks, [ladder.batch(list(range(20)))], record)
    names = [" ".join(pair) for pair in RELATION_DIRECTIONS]
    # looking at the own token or two away is no role
    expected = [(1, Role.POSITIONAL, "-1"), (2, Role.POSITIONAL, "+1")]
    expected += [(8 + column, Role.SYNTACTIC, name) for column, name in enumerate(names)]
    expected += [(16, Role.RARE, "one of two rarest")]
    assert [(each.head, each.role, each.detail) for each in found] == expected
    assert all(each.score == 1 for each in found)


def test_random_heads_have_no_role(corpus, ranks) -> None:
    batches = [corpus.batch(list(range(start, start + 20))) for start in (0, 20, 40)]
    record = lambda batch: random_heads(batch, Kind.ENCODER, heads=8)  # noqa: E731
    found = of_tape(corpus, ranks, batches, record)
    assert [each for each in found if each.role is not Role.SYNTACTIC] == []


def scores(positional=(0.0, 0.0, 0.0, 0.0, 0.0), syntactic=0.0, rare=(0.0, 0.0)) -> list[HeadRole]:
    """The roles of one head; one syntactic score, in column 0, over a baseline of .35."""
    accuracy = torch.zeros(1, 1, 8)
    accuracy[..., 0] = syntactic
    positional, rare = torch.tensor([[positional]]), torch.tensor([[rare]])
    return roles(positional, OFFSETS, accuracy, torch.full((8,), 0.35), rare)


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ({"positional": (0.0, 0.91, 0.0, 0.0, 0.0)}, ["-1"]),
        ({"positional": (0.0, 0.0, 0.0, 0.91, 0.0)}, ["+1"]),
        ({"positional": (0.0, 0.89, 0.0, 0.0, 0.0)}, []),
        ({"positional": (0.99, 0.0, 0.99, 0.0, 0.99)}, []),
        ({"syntactic": 0.46}, ["nsubj head_to_dependent"]),
        ({"syntactic": 0.44}, []),  # +26 % of the baseline, but 9 percentage points
        ({"rare": (0.2, 0.51)}, ["one of two rarest"]),
        ({"rare": (0.49, 0.49)}, []),
    ],
)
def test_thresholds(given, held) -> None:
    assert [each.detail for each in scores(**given)] == held


def test_a_head_may_have_several_roles() -> None:
    several = scores(positional=(0.0, 0.95, 0.0, 0.0, 0.0), syntactic=0.9, rare=(0.6, 0.7))
    assert {each.role for each in several} == set(Role)


def test_nan_gives_no_role() -> None:
    nan = float("nan")
    assert scores(positional=(nan,) * 5, syntactic=nan, rare=(nan, nan)) == []
    unknown = torch.full((8,), nan)
    perfect = torch.ones(1, 1, 8)
    zeros = torch.zeros(1, 1, 5), OFFSETS
    assert roles(*zeros, perfect, unknown, torch.zeros(1, 1, 2)) == []


def test_candidates_keep_every_score_and_threshold() -> None:
    every = candidates(
        torch.rand(2, 3, 5), OFFSETS, torch.rand(2, 3, 8), torch.rand(8), torch.rand(2, 3, 2)
    )
    assert len(every) == 2 * 3 * (2 + 8 + 1)


def test_stricter_thresholds_only_take_away() -> None:
    torch.manual_seed(0)
    given = (torch.rand(2, 3, 5), OFFSETS, torch.rand(2, 3, 8), torch.rand(8), torch.rand(2, 3, 2))
    loose = roles(*given, Thresholds(0.5, 0.05, 0.4))
    strict = roles(*given, Thresholds(0.8, 0.2, 0.7))
    key = lambda each: (each.layer, each.head, each.detail)  # noqa: E731
    assert 0 < len(strict) < len(loose) and {*map(key, strict)} < {*map(key, loose)}


@pytest.mark.parametrize("seed", range(5))
def test_roles_in_replicates_are_those_of_the_candidates(seed: int) -> None:
    torch.manual_seed(seed)
    positional, rare = torch.rand(2, 3, 5), torch.rand(2, 3, 2)
    syntactic, offsets = torch.rand(2, 3, 8), torch.rand(41, 8) / 2
    syntactic[0, 0, 0], offsets[:, 1] = torch.nan, torch.nan
    baseline = offsets.nan_to_num(-1).amax(0)
    baseline[1] = torch.nan
    syntactic[..., 1] = torch.nan
    once = [each[None] for each in (positional, syntactic, offsets, rare)]
    found = held_roles(*once, thresholds=Thresholds(0.7, 0.3, 0.6))
    every = roles(positional, OFFSETS, syntactic, baseline, rare, Thresholds(0.7, 0.3, 0.6))
    for role, held in found.items():
        expected = {(each.layer, each.head) for each in every if each.role is role}
        assert {tuple(at) for at in held[0].nonzero().tolist()} == expected and expected
