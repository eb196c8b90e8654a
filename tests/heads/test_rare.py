"""Rare-word shares of heads that point at known tokens."""

import known_heads as planted
import pytest
import torch

from headbook.heads.rare import RareChance, RareShare, RareUnit, rare_tokens
from headbook.text.batches import EOS, collate

RANKS = torch.arange(1000)  # a piece's id is its rank


def share(tape, batch, ranks=RANKS, unit=RareUnit.QUERY, **options) -> torch.Tensor:
    measure = RareShare(ranks, unit, **options)
    measure.update(tape, batch)
    return measure.compute()[0]


@pytest.mark.parametrize("unit", list(RareUnit))
def test_pointing_at_the_rarest_is_exactly_right(ladder, ranks, unit) -> None:
    batch = ladder.batch(list(range(20)))
    tape = planted.recording([planted.at_rarest(batch, ranks), planted.at_eos(batch)])
    found = share(tape, batch, ranks, unit, outside_top=0)
    assert found.tolist() == [[1, 1], [0, 0]]


def test_one_of_two_rarest() -> None:
    batch = collate([([900, 700, 20, EOS], [3, EOS])], [0])
    heads = [planted.at_offset(batch, 0), planted.at_first(batch), planted.uniform(batch)]
    found = share(planted.recording(heads), batch)
    assert torch.allclose(found[0], torch.tensor([1 / 3, 2 / 3]).double())
    assert found[1:].tolist() == [[1, 1], [0, 0]]


def test_every_occurrence_of_the_rarest_is_a_place() -> None:
    batch = collate([([900, 7, 900, 20, EOS], [3, EOS]), ([600, EOS], [3, EOS])], [0, 1])
    places = rare_tokens(batch, RANKS).places.long().tolist()
    assert places[0] == [[1, 0, 1, 0, 0], [1, 0, 1, 1, 0]]
    assert places[1] == [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0]]


def test_eos_is_never_the_rarest() -> None:
    ranks = RANKS.clone()
    ranks[EOS] = 10_000
    batch = collate([([900, 700, EOS], [3, EOS])], [0])
    assert not rare_tokens(batch, ranks).places[..., 2].any()


def test_sentences_of_frequent_tokens_are_left_out_and_reported() -> None:
    batch = collate([([499, 7, EOS], [3, EOS]), ([500, 7, EOS], [3, EOS])], [0, 1])
    assert rare_tokens(batch, RANKS).kept.tolist() == [False, True]
    measure = RareShare(RANKS)
    measure.update(planted.recording([planted.at_first(batch)]), batch)
    assert measure.compute()[0, 0, 0] == 1
    assert float(measure.denominator.sum(0)[0]) == 2


def test_sentence_unit_sums_attention_over_queries() -> None:
    batch = collate([([900, 7, 8, EOS], [3, EOS])], [0])
    # one query is sure of the rarest, two lean on the second token: 1.0 against 2 * 0.4
    weights = torch.tensor([[1.0, 0, 0, 0], [0.3, 0.4, 0.3, 0], [0.3, 0.4, 0.3, 0], [0, 0, 0, 1.0]])
    tape = planted.recording([weights[None]])
    assert share(tape, batch)[0, 0] == pytest.approx(1 / 3)
    assert share(tape, batch, unit=RareUnit.SENTENCE)[0, 0] == 1


def test_a_transposed_head_is_found_out(ladder, ranks) -> None:
    batch = ladder.batch(list(range(8, 20)))
    turned = planted.recording([planted.at_rarest(batch, ranks).mT])
    assert share(turned, batch, ranks)[0, 0] < 0.2


def test_chance_is_one_over_the_tokens() -> None:
    batch = collate([([900, 7, 8, 9, EOS], [3, EOS]), ([900, 7, EOS], [3, EOS])], [0, 1])
    by_query, by_sentence = RareChance(RANKS), RareChance(RANKS, RareUnit.SENTENCE)
    for measure in (by_query, by_sentence):
        measure.update({}, batch)
    # four queries at 1/4 and two at 1/2; then one sentence each
    assert torch.allclose(by_query.compute(), torch.tensor([2 / 6, 4 / 6]).double())
    assert torch.allclose(by_sentence.compute(), torch.tensor([0.375, 0.75]).double())
