"""Positional shares of heads whose offset is known."""

import known_heads as planted
import pytest
import torch

from headbook.heads.measure import Selection
from headbook.heads.positional import Place, PositionalShare, at_place, best_offset
from headbook.heads.random_head import random_heads
from headbook.models.capture import Point
from headbook.types import Kind

REACH = 5


def measured(tape, batch, kind=Kind.ENCODER, **options) -> PositionalShare:
    measure = PositionalShare(kind, **options)
    measure.update(tape, batch)
    return measure


def share(tape, batch, offset: int, **options) -> torch.Tensor:
    return measured(tape, batch, **options).compute()[0, :, offset + REACH]


def shifted(batch) -> dict:
    return planted.recording([planted.at_offset(batch, offset) for offset in (0, -1, 1, 3)])


@pytest.mark.parametrize("sentence", [0, 4, 8, 12, 16])
def test_shift_heads_are_exact_at_every_length(ladder, sentence) -> None:
    batch = ladder.batch([sentence, sentence + 1], extra=sentence % 3)
    length = int(batch.source_mask[0].sum()) - 1
    for head, offset in enumerate((0, -1, 1, 3)):
        found = measured(shifted(batch), batch).compute()[0, head]
        for at in range(-REACH, REACH + 1):
            if abs(at) >= length:
                assert found[at + REACH].isnan()  # no token has such a neighbour
            else:
                assert found[at + REACH] == (1.0 if at == offset else 0.0)


def test_ragged_ladder_is_exact(ladder) -> None:
    batch = ladder.batch(list(range(20)))
    sums = measured(shifted(batch), batch).sums()
    expected = [Place.OWN, Place.NEIGHBOUR, Place.NEIGHBOUR, Place.OTHER]
    for head, (place, offset) in enumerate(zip(expected, (0, -1, 1, 3), strict=True)):
        best = best_offset(sums, place)
        assert best.offset[0, head] == offset and best.share[0, head] == best.low[0, head] == 1


PLANTED = (0, -1, 1, -2, 2)
FOUND = (Place.OWN, Place.NEIGHBOUR, Place.NEIGHBOUR, Place.OTHER, Place.OTHER)


@pytest.mark.parametrize("selection", list(Selection))
@pytest.mark.parametrize("place", list(Place))
def test_each_place_finds_exactly_its_own_heads(ladder, place, selection) -> None:
    """Heads at 0, one and two: every measure gives its own 1 and the others 0."""
    batch = ladder.batch(list(range(20)))
    heads = [planted.at_offset(batch, offset) for offset in PLANTED]
    best = best_offset(measured(planted.recording(heads), batch).sums(), place, selection)
    assert best.share[0].tolist() == [float(each is place) for each in FOUND]
    own = [offset for offset, each in zip(PLANTED, FOUND, strict=True) if each is place]
    assert best.offset[0, best.share[0] == 1].tolist() == own


@pytest.mark.parametrize("place", list(Place))
def test_noise_looks_at_no_place(corpus, place) -> None:
    measure = PositionalShare(Kind.ENCODER)
    for start in range(0, 60, 20):
        batch = corpus.batch(list(range(start, start + 20)))
        measure.update(random_heads(batch, Kind.ENCODER, heads=8), batch)
    assert best_offset(measure.sums(), place).share.max() < 0.5


def test_the_places_share_out_all_offsets() -> None:
    every = [offset for place in Place for offset in place.offsets()]
    assert sorted(every) == list(range(-REACH, REACH + 1))
    values = torch.arange(-REACH, REACH + 1).double()[None]
    assert at_place(values, Place.OWN).tolist() == [[0]]
    assert at_place(values, Place.NEIGHBOUR).tolist() == [[-1, 1]]
    assert at_place(values[:, 3:-3], Place.OTHER).tolist() == [[-2, 2]]


def test_where_nothing_counts_the_offset_is_none(ladder) -> None:
    batch = ladder.batch([0, 1])  # one token and EOS: no neighbour
    best = best_offset(measured(shifted(batch), batch).sums(), Place.NEIGHBOUR)
    assert (best.offset == -REACH - 1).all() and best.share.isnan().all()


def test_transposed_weights_are_found_out(ladder) -> None:
    batch = ladder.batch([8, 12, 16])
    transposed = planted.recording([planted.at_offset(batch, -1).mT])
    assert share(transposed, batch, -1) == 0
    assert best_offset(measured(transposed, batch).sums(), Place.NEIGHBOUR).offset.item() == 1


def test_an_offset_off_by_one_is_found_out(ladder) -> None:
    batch = ladder.batch([8, 12, 16])
    late = planted.recording([planted.at_offset(batch, -1).roll(1, dims=-1)])
    assert share(late, batch, -1) == 0
    assert best_offset(measured(late, batch).sums(), Place.OWN).share.item() > 0.9


def test_heads_without_an_offset_have_none(ladder) -> None:
    batch = ladder.batch(list(range(12, 20)))
    heads = [planted.uniform(batch), planted.at_eos(batch), planted.at_first(batch)]
    found = measured(planted.recording(heads), batch).compute()[0].nan_to_num()
    assert (found[:2] == 0).all()
    # of n tokens, one at distance k from the first, among n - k that have such a neighbour
    assert torch.allclose(found[2, REACH], torch.tensor(8 / (4 * 33 + 4 * 129)).double())
    assert found[2].max() < 0.02


@pytest.mark.parametrize("kind", list(Kind))
def test_agrees_with_a_loop(corpus, attention, kind) -> None:
    batch = corpus.batch(list(range(8)))
    tape = attention(batch, kind, layers=1, heads=2)
    hits, counted = torch.zeros(2, 2 * REACH + 1), torch.zeros(2 * REACH + 1)
    for row in range(8):
        source, target = int(batch.source_mask[row].sum()), int(batch.target_mask[row].sum())
        first = int(kind is Kind.DECODER)
        end = target if kind is Kind.DECODER else source - 1
        stop = {Kind.ENCODER: source - 1, Kind.DECODER: target, Kind.CROSS: target - 1}[kind]
        for query in range(first, stop):
            keys = range(first, query + 1 if kind is Kind.DECODER else end)
            for offset in range(-REACH, REACH + 1):
                counted[offset + REACH] += query + offset in keys
            for head in range(2):
                weights = tape[kind, Point.WEIGHTS][0][row, head, query]
                offset = max(keys, key=lambda key, row=weights: row[key]) - query
                if abs(offset) <= REACH:
                    hits[head, offset + REACH] += 1
    found = measured(tape, batch, kind).compute()[0]
    assert torch.allclose(found, (hits / counted).double(), equal_nan=True)


def test_best_offset_on_halves_is_scored_elsewhere(corpus, attention) -> None:
    measure = PositionalShare(Kind.ENCODER)
    for start in range(0, 60, 20):
        batch = corpus.batch(list(range(start, start + 20)))
        measure.update(attention(batch), batch)
    best = best_offset(measure.sums(), Place.OTHER, Selection.HALVES)
    at = (best.offset + REACH)[..., None]
    assert torch.equal(best.share, measure.sums().ratio(1).gather(-1, at).squeeze(-1))
    assert torch.equal(best.chosen, at_place(measure.sums().ratio(0), Place.OTHER).max(-1).values)
    assert (best.low <= best.share).all() and (best.share <= best.high).all()
