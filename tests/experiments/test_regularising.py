"""Regularised trainings: a term falls, DropHead drops, and changes are those of the same seed."""

from dataclasses import replace

import pandas as pd
import pytest
from small import backwards, write_pairs

from headbook.experiments import dropping_heads, regularising
from headbook.experiments.dropping_heads import CONSTANT, Setting, V
from headbook.experiments.regularising import NONE, TERMS

WORDS = ["the", "a", "old", "red", "dog", "cat", "man", "ball", "house", "sees", "likes", "finds"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Language models of two layers, of sixty short lines."""
    rows = [[WORDS[(at + 5 * step) % 12] for step in range(4 + at % 3)] for at in range(84)]
    corpus = write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 12)
    return Setting(str(corpus), 60, 16, 16, 2, 0.0, 12, 0.4, 4, 0.0, 6, 0, 2, 2, (0.0, 0.5), 1)


@pytest.mark.parametrize("term", ["outputs disagree", "queries orthogonal"])
def test_a_term_is_smaller_where_it_is_part_of_the_loss(term: str, tiny: Setting):
    base = regularising.measured(tiny, NONE, 0.0, 0)
    found = regularising.measured(tiny, term, 3.0, 0)
    assert found[term].iloc[0] < base[term].iloc[0] - 0.02
    assert list(found["share"]) == [0.0, 0.5] and found["nats"].nunique() == 2


def test_a_translator_is_trained_in_all_kinds_of_attention_and_translates(tiny: Setting):
    pairs = replace(tiny, context=0, updates=3, warmup=2)
    assert len(pairs.kinds) == 3
    found = regularising.measured(pairs, "attention orthogonal", 1.0, 0)
    assert found["bleu"].between(0, 100).all() and found["valid_nats"].between(1, 9).all()


@pytest.mark.parametrize(("variant", "rates"), [
    (CONSTANT, [0.3] * 5), (V, [0.3, 0.15, 0.0, 0.15, 0.3]), (NONE, []),
])  # fmt: skip
def test_heads_are_dropped_on_schedule(
    variant: str, rates: list[float], tiny: Setting, monkeypatch: pytest.MonkeyPatch
):
    """A V turns in the middle of a training that ends in its warm-up."""
    seen = []
    monkeypatch.setattr(dropping_heads, "set_rate", lambda _, rate: seen.append(rate))
    short = replace(tiny, updates=5, warmup=4)
    dropping_heads.train(short, 0, lambda each: dropping_heads.dropping(variant, 0.3, each))
    assert seen == pytest.approx(rates)


def test_looks_at_diversity_leave_the_training_as_it_is(tiny: Setting):
    often, never = (replace(tiny, updates=10, dropout=0.3, watched=each) for each in (1, 0))
    found, alone = (dropping_heads.train(each, 0, lambda _: None) for each in (often, never))
    assert len(found.looks) == 6 * tiny.layers  # behind four to nine updates
    assert found.curve["valid_loss_nats"].equals(alone.curve["valid_loss_nats"])


def trained(variant: str, seed: int, nats: float, **more: float) -> list[dict[str, object]]:
    row = {"task": "t", "variant": variant, "strength": 0.1, "seed": seed, "chosen": True}
    row |= {"order": 0, "test_nats": nats, "bleu": 20 - nats, "output dissimilarity": nats}
    row |= dict.fromkeys(TERMS, 1.0) | more
    return [row | {"share": share, "nats": nats + share * nats} for share in (0.0, 0.5)]


def test_changes_are_from_the_base_of_the_same_seed():
    rows = [*trained(NONE, 0, 4.0), *trained(NONE, 1, 6.0), *trained(V, 1, 5.0)]
    rows += trained(TERMS[0], 0, 3.0, **{TERMS[0]: 0.4})
    found = regularising.changes(pd.DataFrame(rows)).set_index("variant")
    assert found["gain_nats"].to_dict() == {V: 1.0, TERMS[0]: 1.0}
    assert found["gain_bleu"].to_dict() == {V: 1.0, TERMS[0]: 1.0}
    assert found["rise_at_half"].to_dict() == {V: -0.5, TERMS[0]: -0.5}
    assert found["own_term"][TERMS[0]] == pytest.approx(-0.6) and pd.isna(found["own_term"][V])


def test_gains_in_the_order_of_diversity_correlate_and_shuffled_ones_seldom():
    rows = [
        {
            "variant": f"v{at}",
            "seed": seed,
            "output dissimilarity": at / 9,
            "gain_nats": at**2.0 + seed,
        }
        for at in range(8)
        for seed in (0, 1)
    ]
    value, low, high, null = regularising.correlation(pd.DataFrame(rows))
    assert value == pytest.approx(1) and 0.9 < low <= high <= 1 + 1e-9 and 0.3 < null < 0.9
