"""Heads that go in an order: what is kept of BLEU, and up to where nothing is lost (page 22)."""

import numpy as np
import pandas as pd
import pytest
from small import ngrams

from headbook.experiments import by_importance
from headbook.training.paired import corpus_bleu, paired

HEADS = [*(f"L1H{head}" for head in range(1, 6)), *(f"cross L1H{head}" for head in range(1, 6))]
ORDERS = {("all", "importance", 0): HEADS}
POINTS = by_importance.along(ORDERS, (0.0, 0.2, 0.4, 0.6))


FOUND = np.stack([ngrams(good) for good in (1.0, 1.0, 0.9, 0.8, 0.2)])


def test_rows_are_tested_against_the_whole_model() -> None:
    rows = by_importance.rows(POINTS, ORDERS, FOUND)
    assert rows[["encoder_pruned", "decoder_pruned", "cross_pruned"]].iloc[-1].tolist() == [5, 0, 1]
    first, _, third, _ = rows.to_dict("records")
    assert [first[name] for name in ("change", "change_low", "change_high", "p")] == [0, 0, 0, 1]
    test = paired(FOUND[3], FOUND[0])
    assert (third["change"], third["p"]) == (test.difference, test.p)
    assert third["kept"] == third["bleu"] / first["bleu"]


def test_what_is_kept_is_of_the_same_sentences() -> None:
    kept, bleu = by_importance.kept(FOUND), np.array([corpus_bleu(each) for each in FOUND])
    assert (kept[:, 0] == 1).all()
    assert np.allclose(kept[0], bleu[1:] / bleu[0])
    assert kept[:, 1].std() < kept[:, 1].mean() * 0.01  # what sentences share cancels
    assert np.isnan(by_importance.kept(np.stack([ngrams(0.0)] * 3))).all()


def test_the_mean_is_over_levels_and_draws_and_leaves_the_whole_model_out() -> None:
    labels = [("random", 0, 0.0), ("random", 0, 0.2), ("random", 1, 0.0), ("random", 1, 0.2)]
    rows = pd.DataFrame([*labels, ("other", 0, 0.2)], columns=["order", "number", "level"])
    rows["scope"], kept = "all", np.array([[1.0, 0.5, 1.0, 0.7, 0.1]])
    assert by_importance.mean(rows, kept, "random") == pytest.approx(0.6)
    assert by_importance.mean(rows, kept, "other", level=0.2) == pytest.approx(0.1)


def test_harmless_ends_at_the_first_significant_loss_whatever_the_order_of_rows() -> None:
    rows = pd.DataFrame(
        {"number": 0, "level": [0.0, 0.1, 0.2, 0.3], "share": [0.0, 0.1, 0.2, 0.3],
         "change": [0.0, 0.2, -1.0, -0.1], "p": [0.001, 0.001, 0.001, 0.5]}
    )  # fmt: skip
    assert by_importance.harmless(rows.iloc[::-1]) == 0.1
    draws = pd.concat([rows, rows.assign(p=0.5, number=1)])
    assert by_importance.harmless(draws) == pytest.approx(0.2)
