"""Masking: how many tokens are selected, what becomes of them, and what is never touched."""

import pytest

from headbook.corpora.masked import masked_copies
from headbook.text.batches import EOS, PAD, UNK, EncodedPair

VOCABULARY = MASK = 1_000  # the first id behind the subwords
SENTENCES = [
    [3 + (7 * row + place) % (VOCABULARY - 3) for place in range(row % 40)] + [EOS]
    for row in range(400)
]
ORIGINALS = [row for row in SENTENCES if len(row) > 1] * 10
"""A sentence of nothing but its end is left out."""


@pytest.fixture(scope="module")
def pairs() -> list[EncodedPair]:
    return masked_copies(SENTENCES, VOCABULARY, copies=10, seed=0)


def test_15_percent_of_every_sentence_are_wanted_and_the_rest_is_itself(pairs):
    for (shown, wanted), row in zip(pairs, ORIGINALS, strict=True):
        asked = [place for place, identity in enumerate(wanted) if identity != PAD]
        assert len(asked) == max(1, round(0.15 * (len(row) - 1)))
        assert all(wanted[place] == row[place] for place in asked)
        assert all(shown[place] == row[place] for place in range(len(row)) if place not in asked)
        assert len(shown) == len(wanted) == len(row) and (shown[-1], wanted[-1]) == (EOS, PAD)


def test_of_those_80_percent_are_hidden_10_left_and_10_any_ordinary_token(pairs):
    found = [each for pair in pairs for each in zip(*pair, strict=True) if each[1] != PAD]
    hidden = sum(shown == MASK for shown, _ in found) / len(found)
    left = sum(shown == wanted for shown, wanted in found) / len(found)
    # 0.02: some four standard deviations of a share of 10,000 tokens
    assert hidden == pytest.approx(0.8, abs=0.02) and left == pytest.approx(0.1, abs=0.02)
    replaced = [shown for shown, wanted in found if shown not in (wanted, MASK)]
    assert UNK < min(replaced) < 30 and VOCABULARY - 30 < max(replaced) < VOCABULARY
    assert MASK >= VOCABULARY > max(wanted for _, wanted in found)


def test_copies_differ_and_the_same_seed_gives_the_same():
    one, same, other = (masked_copies(SENTENCES, VOCABULARY, 2, seed) for seed in (0, 0, 1))
    half = len(one) // 2
    assert one == same != other and one[:half] != one[half:]
