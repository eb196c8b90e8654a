"""Pages 36 to 38: terms fall, DropHead drops, what is shared is counted, changes by hand."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.experiments import drop_head, fewer_heads, regularising
from headbook.experiments.drop_head import CONSTANT, V, dropping
from headbook.experiments.fewer_heads import DELIGHT, WHOLE, by_group, network_of
from headbook.experiments.regularising import NONE, TERMS
from headbook.experiments.small_models import Setting, train
from headbook.looking.diversity import diversity
from headbook.models.transformer import TransformerConfig
from headbook.text.batches import collate
from headbook.types import Kind

PAIRS = "8 heads, 4 shared"


@pytest.fixture(scope="module")
def tiny(corpus: str) -> Setting:
    """Language models of two layers."""
    return Setting(corpus, 60, 16, 32, 2, 0.0, 12, 0.4, 4, 0.0, 6, 4, 2, 2, (0.0, 0.5), 2)


def test_a_term_is_smaller_where_it_is_part_of_the_loss_and_translators_translate(tiny: Setting):
    term = "outputs disagree"
    base, found = (regularising.measured(tiny, *each, 0) for each in ((NONE, 0.0), (term, 3.0)))
    assert found[term].iloc[0] < base[term].iloc[0] - 0.02
    pairs = replace(tiny, context=0, updates=3, warmup=2, width=16)
    found = regularising.measured(pairs, "attention orthogonal", 1.0, 0)
    assert len(pairs.kinds) == 3 and found["bleu"].between(0, 100).all()


@pytest.mark.parametrize(("variant", "rates"), [
    (CONSTANT, [0.3] * 5), (V, [0.3, 0.15, 0.0, 0.15, 0.3]), (NONE, []),
])  # fmt: skip
def test_heads_are_dropped_on_schedule(
    variant: str, rates: list[float], tiny: Setting, monkeypatch: pytest.MonkeyPatch
):
    """A V turns in the middle of a training that ends in its warm-up."""
    seen = []
    monkeypatch.setattr(drop_head, "drop_heads", lambda _, rate: seen.append(rate))
    short = replace(tiny, updates=5, warmup=4, width=16)
    train(short, 0, lambda each: dropping(variant, 0.3, each))
    assert seen == pytest.approx(rates)


def test_looks_at_diversity_leave_the_training_as_it_is(tiny: Setting):
    found, alone = (train(replace(tiny, dropout=0.3, watched=each), 0) for each in (1, 0))
    assert len(found.looks) == 7 * tiny.layers  # behind five to eleven updates
    assert found.curve["valid_loss_nats"].equals(alone.curve["valid_loss_nats"])


def test_a_rate_of_nothing_drops_nothing_and_closed_heads_cost(tiny: Setting):
    schedules = (("no DropHead", 0.0), ("V", 0.0), ("one rate", 0.9))
    longer = replace(tiny, width=16, updates=30, scale=0.8, every=15)
    quality, removed, layers = drop_head.sweep(1, longer, schedules)
    nats = quality.set_index("schedule")[["train_nats", "valid_nats", "test_nats"]]
    assert nats.loc["V"].equals(nats.loc["no DropHead"])
    assert nats.loc["one rate", "train_nats"] > nats.loc["V", "train_nats"]
    assert removed.query("share == 0").groupby("schedule")["nats"].nunique().max() == 1
    assert removed.groupby(["schedule", "share"])["nats"].nunique().max() == 2  # one per order
    assert layers["layer"].tolist() == [1] * 3 + [2] * 3


def test_pairs_within_and_across_groups_are_all_pairs():
    torch.manual_seed(0)
    network = network_of(PAIRS, TransformerConfig(12, 12, 0, 2, 32, 64, 8)).eval()
    batch = [collate([([1], [3, 4, 5, 6, 7, 8])], [0])]
    found = by_group(network, (), batch)
    known = diversity(network, (Kind.DECODER,), batch)["output dissimilarity, scale-free"]
    mean = (4 * found["within"] + 24 * found["across"]) / 28
    assert mean.tolist() == pytest.approx(known.tolist(), abs=1e-6)
    assert (found["within"] - found["across"]).abs().min() > 1e-4


def test_variants_of_a_seed(tiny: Setting):
    quality, averaged, groups = fewer_heads.sweep(1, tiny, (WHOLE, PAIRS, DELIGHT))
    own = quality.set_index("variant")
    assert own.at[PAIRS, "cached_numbers"] == own.at[WHOLE, "cached_numbers"] / 2
    assert own.at[DELIGHT, "blocks_million"] < own.at[WHOLE, "blocks_million"]
    assert own["test_nats"].nunique() == 3 and averaged["groups"].tolist() == [4, 2, 1]
    assert groups["layer"].tolist() == [1, 2] and set(groups["variant"]) == {PAIRS}


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
    rows = [(f"v{at}", seed, at / 9, at**2.0 + seed) for at in range(8) for seed in (0, 1)]
    columns = ["variant", "seed", "output dissimilarity", "gain_nats"]
    value, low, high, null = regularising.correlation(pd.DataFrame(rows, columns=columns))
    assert value == pytest.approx(1) and 0.9 < low <= high <= 1 + 1e-9 and 0.3 < null < 0.9
