"""The splits tell a head that follows rarity from one that follows a place or a length."""

import pytest
import torch

from headbook.chapters.specialised_heads._rare_rivals import (
    GROUPS,
    ByGroup,
    chosen_head,
    groups_of,
    length_edges,
    scored,
)
from headbook.corpora.batches import EOS, Batch, collate
from headbook.heads.measure import RatioSums
from headbook.heads.planted import at_first, at_rarest, recording
from headbook.heads.rare import RareChance, RareShare

RANKS = torch.arange(600)
CHARACTERS = torch.tensor([0, 0, 0] + [(7 * piece) % 11 + 1 for piece in range(3, 600)])
EDGES = [3, 5]


def batch_of(*sources: list[int]) -> Batch:
    return collate([([*source, EOS], [EOS]) for source in sources], range(len(sources)))


def split(batch: Batch) -> torch.Tensor:
    return groups_of(batch, RANKS, CHARACTERS, EDGES)


def names(batch: Batch, row: int) -> list[str]:
    return [group for (_, group), member in zip(GROUPS, split(batch)[row], strict=True) if member]


def test_the_groups_of_sentences_worked_by_hand() -> None:
    characters = torch.ones(600, dtype=torch.long)
    characters[590], characters[20] = 9, 5
    batch = batch_of([590, 4, 5], [20, 7, 510, 8, 9], [3, 4, 5, 6, 7, 8, 9, 20, 590])
    found = groups_of(batch, RANKS, characters, EDGES)
    expected = [
        ["first third", "short", "is the rarest"],
        ["middle third", "middling", "is another"],
        ["last third", "long", "is the rarest"],
    ]
    for row, groups in zip(found, expected, strict=True):
        assert [group for (_, group), member in zip(GROUPS, row, strict=True) if member] == groups


def test_every_sentence_is_in_one_group_of_each_split() -> None:
    generator = torch.Generator().manual_seed(0)
    sources = [
        torch.randint(3, 600, (length,), generator=generator).tolist() for length in range(1, 20)
    ]
    member = split(batch_of(*sources))
    for by in {by for by, _ in GROUPS}:
        columns = [at for at, (split_by, _) in enumerate(GROUPS) if split_by == by]
        assert (member[:, columns].sum(-1) == 1).all()


def test_padding_moves_no_sentence() -> None:
    short, long = [590, 4, 5], list(range(3, 30))
    assert names(batch_of(short), 0) == names(batch_of(short, long), 0)


@pytest.fixture
def measured() -> dict[str, RatioSums]:
    """A head at the rarest token and one at the first, over sentences with it in any place."""
    sources = [[5, 6, 7, 8, 9, 10] for _ in range(60)]
    for row, source in enumerate(sources):
        source[row % 6] = 510 + row
    batch = batch_of(*sources)
    tape = recording([at_rarest(batch, RANKS), at_first(batch)])
    found = {}
    for name, whole in (("share", RareShare(RANKS)), ("chance", RareChance(RANKS))):
        apart = ByGroup(whole, split)
        apart.update(tape, batch)
        found[name] = apart.sums()
        whole.update(tape, batch)
        found[f"whole {name}"] = whole.sums()
    return found


def test_a_head_at_rarity_keeps_its_lead_wherever_the_token_stands(
    measured: dict[str, RatioSums],
) -> None:
    share, chance = measured["share"].ratio()[0], measured["chance"].ratio()[0, 0]
    assert (share[0, :3] == 1).all()
    torch.testing.assert_close(chance[:3], torch.full((3,), 2 / 6, dtype=torch.float64))


def test_a_head_at_one_place_leads_over_chance_there_only(measured: dict[str, RatioSums]) -> None:
    share, chance = measured["share"].ratio()[0], measured["chance"].ratio()[0, 0]
    assert share[1, 0] > chance[0]
    assert share[1, 1] == 0
    assert share[1, 2] == 0


def test_the_groups_of_one_split_add_up_to_the_whole(measured: dict[str, RatioSums]) -> None:
    apart, whole = measured["share"], measured["whole share"]
    torch.testing.assert_close(apart.numerator[..., :3].sum(-1), whole.numerator[..., 1])
    torch.testing.assert_close(apart.denominator[..., :3].sum(-1), whole.denominator[..., 0])


def sums_of(first: list[list[float]], second: list[list[float]]) -> RatioSums:
    """Shares at the two rarest on each half, [layer, head]; at the rarest they are half of it."""
    halves = torch.tensor([first, second], dtype=torch.float64)[:, None].expand(-1, 4, -1, -1)
    return RatioSums(torch.stack([halves / 2, halves], -1), torch.ones(2, 4, 1, 1, 1).double())


def test_the_head_is_chosen_on_one_half_and_scored_on_the_other() -> None:
    sums = sums_of([[0.2, 0.6], [0.1, 0.9]], [[0.8, 0.3], [0.1, 0.4]])
    assert chosen_head(sums, 1) == (0, 1)
    assert chosen_head(sums) == (1, 1)
    assert scored(sums, (0, 1), 1) == pytest.approx((0.3, 0.3, 0.3))
    assert scored(sums, (0, 1), 0) == pytest.approx((0.15, 0.15, 0.15))


def test_where_no_sentence_counts_there_is_no_head() -> None:
    sums = sums_of([[0.2, 0.6]], [[0.8, 0.3]])
    nothing = RatioSums(sums.numerator * 0, sums.denominator * 0)
    assert chosen_head(nothing) is None
    assert all(value != value for value in scored(nothing, None, 1))


def test_lengths_are_cut_into_thirds_of_the_sentences_that_count() -> None:
    counted = [([*range(3, 3 + length), 599, EOS], [EOS]) for length in range(9)]
    common = [([*range(3, 60), EOS], [EOS])]
    assert length_edges(counted + common, RANKS) == [4, 7]
    assert length_edges(common, RANKS) == [0, 0]
