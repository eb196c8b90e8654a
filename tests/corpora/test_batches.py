"""Batches: every sentence once, in batches of at most so many tokens, padded and shifted."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headbook.corpora.batches import EOS, PAD, collate, epoch, in_order, pad

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


@given(PAIRS, st.integers(1, 80))
def test_in_order_holds_every_sentence_once_with_its_number(lengths, tokens):
    pairs = encoded(lengths)
    seen = []
    for batch in in_order(pairs, tokens):
        for row, sentence in enumerate(batch.sentences.tolist()):
            seen.append(sentence)
            assert batch.source[row][batch.source_mask[row]].tolist() == pairs[sentence][0]
            assert batch.target_out[row][batch.target_mask[row]].tolist() == pairs[sentence][1]
    assert sorted(seen) == list(range(len(pairs)))


@given(PAIRS.filter(bool))
def test_padding_is_on_the_right_and_the_target_is_shifted(lengths):
    pairs = encoded(lengths)
    batch = collate(pairs, list(range(len(pairs))))
    assert len(batch) == len(pairs)
    for row, (source, target) in enumerate(lengths):
        assert batch.source_mask[row].tolist() == [*[True] * source] + [False] * (
            batch.source.shape[1] - source
        )
        assert batch.target_mask[row].sum() == target
        assert batch.target_out[row, target - 1] == EOS and batch.source[row, source - 1] == EOS
    assert torch.equal(batch.target_in[:, 1:], batch.target_out[:, :-1])
    assert (batch.target_in[:, 0] == PAD).all()


def test_a_batch_by_hand():
    batch = collate([([5, 6, EOS], [7, EOS]), ([8, EOS], [9, 10, 11, EOS])], [40, 2])
    assert batch.source.tolist() == [[5, 6, 1], [8, 1, 0]]
    assert batch.target_out.tolist() == [[7, 1, 0, 0], [9, 10, 11, 1]]
    assert batch.target_in.tolist() == [[0, 7, 1, 0], [0, 9, 10, 11]]
    assert batch.source_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.target_mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.sentences.tolist() == [40, 2]
    assert batch.to("meta").source.device.type == "meta" and batch.source.device.type == "cpu"


def test_epochs_differ_and_repeat_at_the_same_seed():
    pairs = encoded([(length % 9 + 1, length % 7 + 1) for length in range(80)])
    first = epoch(pairs, 30, seed=4, number=0)
    assert epoch(pairs, 30, seed=4, number=0) == first
    others = [epoch(pairs, 30, seed=4, number=1), epoch(pairs, 30, seed=5, number=0)]
    assert all(other != first for other in others) and others[0] != others[1]


def test_sentences_of_one_length_meet_others_in_the_next_epoch():
    pairs = encoded([(4, 5)] * 40)
    first, second = (
        {frozenset(batch) for batch in epoch(pairs, 30, seed=4, number=number)} for number in (0, 1)
    )
    assert first != second


def test_the_order_of_batches_is_not_that_of_lengths():
    pairs = encoded([(length, length) for length in range(1, 60)])
    widths = [len(pairs[batch[0]][1]) for batch in epoch(pairs, 60, seed=0, number=0)]
    assert widths != sorted(widths)


def test_sentences_of_one_length_share_a_batch_without_padding():
    pairs = encoded([(4, 5)] * 6 + [(9, 9)] * 6)
    for batch in in_order(pairs, 54):
        assert batch.source_mask.all() and batch.target_mask.all() and len(batch) == 6


def test_a_sentence_over_the_cap_is_alone():
    pairs = encoded([(3, 3), (3, 50), (50, 3), (3, 3)])
    batches = [sorted(batch.sentences.tolist()) for batch in in_order(pairs, 10)]
    assert sorted(batches) == [[0, 3], [1], [2]]


def test_an_empty_corpus_has_no_batch():
    assert list(in_order([], 10)) == [] and epoch([], 10, 0, 0) == []


def test_pad_to_a_given_length():
    assert pad([[3], [4, 5]], length=3).tolist() == [[3, 0, 0], [4, 5, 0]]


@pytest.mark.parametrize("tokens", [1, 7, 1000])
def test_the_cap_moves_no_sentence_out_of_measuring(tokens):
    pairs = encoded([(length % 5 + 1, 3) for length in range(23)])
    total = sum(int(batch.source_mask.sum()) for batch in in_order(pairs, tokens))
    assert total == sum(len(source) for source, _ in pairs)


def test_rows_are_selected_of_every_field_that_there_is() -> None:
    batch = collate([([5, 6, EOS], [7, EOS]), ([5, EOS], [7, 8, 9, EOS])], [3, 4])
    second = batch.select(slice(1, None))
    assert second.sentences.tolist() == [4] and second.source.tolist() == [[5, EOS, PAD]]
    assert second.source_real is None
    marked = replace(batch, source_real=batch.source_mask)
    kept = marked.select(torch.tensor([False, True])).source_real
    assert kept is not None and kept.tolist() == [[True, True, False]]
