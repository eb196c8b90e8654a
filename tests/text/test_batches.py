"""Batches: every sentence once, in batches of at most so many tokens, padded and shifted."""

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from headbook.text.batches import EOS, PAD, collate, epoch

PAIRS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=60)
"""Lengths of source and target, EOS included."""


def encoded(lengths: list[tuple[int, int]]) -> list[tuple[list[int], list[int]]]:
    """Ids that tell sentences apart: everything in sentence n is n + 3."""
    return [
        ([*[index + 3] * (source - 1), EOS], [*[index + 3] * (target - 1), EOS])
        for index, (source, target) in enumerate(lengths)
    ]


@given(PAIRS, st.integers(1, 80), st.integers(0, 3), st.integers(0, 3))
def test_an_epoch_holds_every_sentence_once_within_the_cap(lengths, tokens, seed, number):
    batches = epoch(encoded(lengths), tokens, seed, number)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        for side in (0, 1):
            padded = len(batch) * max(lengths[index][side] for index in batch)
            assert padded <= tokens or len(batch) == 1


def test_a_batch_by_hand():
    batch = collate([([5, 6, EOS], [7, EOS]), ([8, EOS], [9, 10, 11, EOS])], [40, 2])
    assert batch.source.tolist() == [[5, 6, 1], [8, 1, 0]]
    assert batch.target_out.tolist() == [[7, 1, 0, 0], [9, 10, 11, 1]]
    assert batch.target_in.tolist() == [[PAD, 7, 1, 0], [PAD, 9, 10, 11]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.source_boundary.tolist() == [[False, False, True], [False, True, False]]
    assert batch.input_boundary.tolist() == [[True, False, False, False]] * 2
    assert batch.output_boundary.tolist() == [[False, True, False, False], [False] * 3 + [True]]
    assert batch.sentences.tolist() == [40, 2]


def test_epochs_differ_in_order_and_company_and_repeat_at_the_same_seed():
    pairs = encoded([(length % 9 + 1, length % 7 + 1) for length in range(80)])
    first = epoch(pairs, 30, seed=4, number=0)
    assert epoch(pairs, 30, seed=4, number=0) == first
    others = [epoch(pairs, 30, seed=4, number=1), epoch(pairs, 30, seed=5, number=0)]
    assert all(other != first for other in others) and others[0] != others[1]
    alike = encoded([(4, 5)] * 40)
    one, two = ({frozenset(batch) for batch in epoch(alike, 30, 4, number)} for number in (0, 1))
    assert one != two  # sentences of one length meet others in the next epoch


def test_rows_are_selected_of_every_field_that_there_is() -> None:
    batch = collate([([5, 6, EOS], [7, EOS]), ([5, EOS], [7, 8, 9, EOS])], [3, 4])
    second = batch.select(slice(1, None))
    assert second.sentences.tolist() == [4] and second.source.tolist() == [[5, EOS, PAD]]
    marked = replace(batch, source_real=batch.source_mask)
    kept = marked.select(torch.tensor([False, True])).source_real
    assert kept is not None and kept.tolist() == [[True, True, False]]
