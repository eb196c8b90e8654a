"""Masking: how many tokens are selected, what becomes of them, and what is never touched."""

import pytest
import torch

from headbook.corpora.batches import EOS, PAD, UNK, EncodedPair
from headbook.corpora.masked import BERT, SELECTED, Masking, mask_id, masked_copies

VOCABULARY = 1_000
SENTENCES = [
    [3 + (7 * row + place) % (VOCABULARY - 3) for place in range(row % 40)] + [EOS]
    for row in range(400)
]
TOLERANCE = 0.02
"""Some four standard deviations of a share of the 10,000 tokens selected here."""


@pytest.fixture(scope="module")
def pairs() -> list[EncodedPair]:
    return masked_copies(SENTENCES, VOCABULARY, copies=10, seed=0)


def originals(copies: int = 10) -> list[list[int]]:
    return [row for row in SENTENCES if len(row) > 1] * copies


def selected(pairs: list[EncodedPair]) -> list[tuple[int, int]]:
    """What is shown and what is wanted, wherever something is."""
    return [each for pair in pairs for each in zip(*pair, strict=True) if each[1] != PAD]


def test_just_so_many_of_every_sentence_are_selected(pairs: list[EncodedPair]) -> None:
    for (_, wanted), row in zip(pairs, originals(), strict=True):
        asked = max(1, round(SELECTED * (len(row) - 1)))
        assert sum(identity != PAD for identity in wanted) == asked


def test_elsewhere_the_sentence_is_itself_and_nothing_is_wanted(pairs: list[EncodedPair]) -> None:
    for (shown, wanted), row in zip(pairs, originals(), strict=True):
        assert len(shown) == len(wanted) == len(row)
        for seen, asked, real in zip(shown, wanted, row, strict=True):
            assert (seen, asked) == (real, PAD) or asked == real


def test_the_end_is_never_selected(pairs: list[EncodedPair]) -> None:
    assert all((shown[-1], wanted[-1]) == (EOS, PAD) for shown, wanted in pairs)


def test_the_selected_are_hidden_replaced_or_left_in_these_shares(pairs: list[EncodedPair]) -> None:
    found = selected(pairs)
    hidden = sum(shown == mask_id(VOCABULARY) for shown, _ in found) / len(found)
    left = sum(shown == wanted for shown, wanted in found) / len(found)
    assert hidden == pytest.approx(BERT.hidden, abs=TOLERANCE)
    # one random token in a thousand is by chance the same
    assert left == pytest.approx(1 - BERT.hidden - BERT.random, abs=TOLERANCE)


def test_the_mask_is_behind_the_vocabulary_and_never_wanted(pairs: list[EncodedPair]) -> None:
    assert mask_id(VOCABULARY) == VOCABULARY
    assert max(wanted for _, wanted in selected(pairs)) < VOCABULARY


def test_a_random_token_is_any_but_a_reserved_one(pairs: list[EncodedPair]) -> None:
    replaced = [
        shown for shown, wanted in selected(pairs) if shown not in (wanted, mask_id(VOCABULARY))
    ]
    assert UNK < min(replaced) < 30 and VOCABULARY - 30 < max(replaced) < VOCABULARY


def test_every_place_is_as_likely() -> None:
    row = [*range(3, 43), EOS]
    pairs = masked_copies([row] * 100, VOCABULARY, copies=10, seed=1)
    counts = torch.tensor([[identity != PAD for identity in wanted] for _, wanted in pairs]).sum(0)
    # 1,000 draws of 15 %: a standard deviation of 11
    assert counts[-1] == 0 and (counts[:-1] - 150).abs().max() < 5 * 11.3


def test_copies_differ_and_the_same_seed_gives_the_same() -> None:
    one, same, other = (masked_copies(SENTENCES, VOCABULARY, 2, seed) for seed in (0, 0, 1))
    half = len(one) // 2
    assert one == same != other and one[:half] != one[half:]


def test_a_sentence_of_nothing_but_its_end_is_left_out() -> None:
    assert masked_copies([[EOS]], VOCABULARY, 3, 0) == []
    assert len(masked_copies([[EOS], [5, EOS]], VOCABULARY, 3, 0)) == 3


def test_all_of_them_can_be_hidden_or_become_one_of_some_tokens() -> None:
    hidden = masked_copies(SENTENCES, VOCABULARY, 1, 0, Masking(1.0, 0.0))
    assert {shown for shown, _ in selected(hidden)} == {mask_id(VOCABULARY)}
    among = (5, 17, 400)
    replaced = [
        shown for shown, _ in selected(masked_copies(SENTENCES, VOCABULARY, 1, 0,
                                                     Masking(0.0, 1.0, among)))
    ]  # fmt: skip
    shares = [replaced.count(identity) / len(replaced) for identity in among]
    assert set(replaced) == set(among) and min(shares) > 0.25
