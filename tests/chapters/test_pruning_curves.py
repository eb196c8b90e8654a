"""Curves of pruned models: what is kept, where it falls, and its intervals, against hand counts."""

import numpy as np
import pandas as pd
import pytest

from headbook.chapters.sixteen._curves import (
    Curve,
    Scored,
    averaged,
    curve,
    curve_rows,
    harmless,
    kept,
    kept_at,
    mean_kept,
    prunable,
)
from headbook.statistics import interval
from headbook.training.paired import corpus_bleu, paired
from headbook.types import HeadId, Kind

HEADS = tuple(HeadId(Kind.ENCODER, layer, head) for layer in range(2) for head in range(5))
LEVELS = (0.0, 0.2, 0.4, 0.6)
LINE = curve(HEADS, LEVELS, "first to last")


def _statistics(good: float, sentences: int = 30) -> np.ndarray:
    lengths = 50 + np.arange(sentences) % 5
    totals = lengths[:, None] - np.arange(4)
    correct = np.round(totals * good * np.linspace(0.6, 1, sentences)[:, None]).astype(np.int64)
    return np.column_stack([lengths, lengths, correct, totals])


def _scored(line: Curve, goods: list[float]) -> Scored:
    statistics = np.stack([_statistics(good) for good in goods])
    bleu = np.array([corpus_bleu(each) for each in statistics])
    index = {mask: number for number, mask in enumerate(line.masks)}
    return Scored(index, bleu, statistics, np.zeros(len(goods)))


SCORED = _scored(LINE, [1.0, 0.9, 0.8, 0.2])


def test_a_curve_has_a_mask_a_level_and_knows_its_true_shares() -> None:
    assert [len(mask) for mask in LINE.masks] == [0, 2, 4, 6]
    assert LINE.shares == [0, 0.2, 0.4, 0.6]
    assert curve(HEADS[:7], (0.5, 0.0), "x").shares == [0, 4 / 7]


def test_equal_sets_are_one_mask_whatever_their_order() -> None:
    turned = curve(HEADS[3::-1], (0.0, 1.0), "turned")
    assert turned.masks[-1] == HEADS[:4]


def test_an_order_may_end_before_all_heads_are_in_it() -> None:
    assert curve(HEADS[:6], LEVELS, "x", heads=10).masks == LINE.masks


def test_kept_is_bleu_over_the_full_model_s_on_the_same_sentences() -> None:
    found = kept(LINE, SCORED)
    assert found.shape == (1001, 4)
    assert (found[:, 0] == 1).all()
    assert np.allclose(found[0], SCORED.bleu / SCORED.bleu[0])
    assert found[:, 1].std() < found[:, 1].mean() * 0.01  # paired: what sentences share cancels


def test_between_two_levels_lies_a_straight_line() -> None:
    found = kept(LINE, SCORED)
    assert np.allclose(kept_at(LINE, SCORED, 0.4), found[:, 2])
    assert np.allclose(kept_at(LINE, SCORED, 0.5), (found[:, 2] + found[:, 3]) / 2)
    assert np.allclose(kept_at(LINE, SCORED, 0.05), 0.75 * found[:, 0] + 0.25 * found[:, 1])


def test_the_mean_leaves_the_full_model_out() -> None:
    assert np.allclose(mean_kept(LINE, SCORED), kept(LINE, SCORED)[:, 1:].mean(axis=1))


def test_what_is_prunable_ends_where_the_line_crosses() -> None:
    values = SCORED.bleu / SCORED.bleu[0]
    weight = (values[1] - 0.85) / (values[1] - values[2])
    assert prunable(LINE, SCORED, 0.85)[0] == pytest.approx(0.2 + 0.2 * weight)
    assert prunable(LINE, SCORED, 0.0)[0] == 0.6


def test_the_first_crossing_counts_though_bleu_comes_back() -> None:
    back = _scored(LINE, [1.0, 0.5, 1.0, 1.0])
    assert 0 < prunable(LINE, back, 0.9)[0] < 0.2


def test_a_model_that_translates_nothing_keeps_no_number() -> None:
    nothing = _scored(LINE, [0.0, 0.0, 0.0, 0.0])
    for found in (mean_kept(LINE, nothing), prunable(LINE, nothing, 0.85)):
        assert np.isnan(found).all()
        assert np.isnan(interval(found)).all()
    assert curve_rows([LINE], nothing)["kept"].isna().all()


def test_random_orders_are_averaged_and_others_left_out() -> None:
    lines = [curve(HEADS, (0.0, share), "random", number=number)
             for number, share in enumerate((0.2, 0.4))]  # fmt: skip
    other = curve(HEADS, (0.0, 0.6), "another")
    found = averaged(lambda line: mean_kept(line, SCORED), [*lines, other], "random")
    values = SCORED.bleu / SCORED.bleu[0]
    assert found[0] == pytest.approx((values[1] + values[2]) / 2)


def test_rows_hold_the_paired_test_against_the_full_model() -> None:
    row = curve_rows([LINE], SCORED).set_index("pruned").loc[4]
    test = paired(SCORED.statistics[2], SCORED.statistics[0])
    assert (row["difference"], row["low"], row["high"], row["p"]) == (
        test.difference, test.low, test.high, test.p,
    )  # fmt: skip
    assert (row["encoder_pruned"], row["decoder_pruned"], row["share"]) == (4, 0, 0.4)
    drawn = SCORED.replicates[1:, 2] - SCORED.replicates[1:, 0]
    assert np.quantile(drawn, 0.025) == pytest.approx(test.low)


def test_the_full_model_does_not_differ_from_itself() -> None:
    row = curve_rows([LINE], SCORED).set_index("pruned").loc[0]
    assert (row["difference"], row["low"], row["high"], row["p"]) == (0, 0, 0, 1)


def test_harmless_ends_at_the_first_significant_loss() -> None:
    levels = pd.DataFrame(
        {"level": [0.0, 0.1, 0.2, 0.3], "share": [0.0, 0.1, 0.2, 0.3],
         "difference": [0.0, 0.2, -1.0, -0.1], "p": [0.001, 0.001, 0.001, 0.5]}
    )  # fmt: skip
    assert harmless(levels) == 0.1
    assert harmless(levels.assign(p=0.5)) == 0.3
    assert harmless(levels.iloc[::-1]) == 0.1
