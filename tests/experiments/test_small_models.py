"""Pages 36 to 38: terms fall, DropHead drops, changes by hand."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
import torch

from headbook.experiments import drop_head, regularising
from headbook.experiments.drop_head import CONSTANT, V, dropping
from headbook.experiments.fewer_heads import by_group, network_of
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


def test_a_term_is_smaller_where_it_is_part_of_the_loss(tiny: Setting):
    term = "outputs disagree"
    base, found = (regularising.measured(tiny, *each, 0) for each in ((NONE, 0.0), (term, 3.0)))
    assert found[term].iloc[0] < base[term].iloc[0] - 0.02


def test_heads_are_dropped_on_schedule(tiny: Setting, monkeypatch: pytest.MonkeyPatch):
    """A V turns in the middle of a training that ends in its warm-up."""
    seen = []
    monkeypatch.setattr(drop_head, "drop_heads", lambda _, rate: seen.append(rate))
    short = replace(tiny, updates=5, warmup=4, width=16)
    for variant in (CONSTANT, V, NONE):
        train(short, 0, partial(dropping, variant, 0.3))
    assert seen == pytest.approx([0.3] * 5 + [0.3, 0.15, 0.0, 0.15, 0.3])


def test_looks_at_diversity_leave_the_training_as_it_is(tiny: Setting):
    found, alone = (train(replace(tiny, dropout=0.3, watched=each), 0) for each in (1, 0))
    assert len(found.looks) == 7 * tiny.layers  # behind five to eleven updates
    assert found.curve["valid_loss_nats"].equals(alone.curve["valid_loss_nats"])


def test_pairs_within_and_across_groups_are_all_pairs():
    torch.manual_seed(0)
    network = network_of(PAIRS, TransformerConfig(12, 12, 0, 2, 32, 64, 8)).eval()
    batch = [collate([([1], [3, 4, 5, 6, 7, 8])], [0])]
    found = by_group(network, (), batch)
    known = diversity(network, (Kind.DECODER,), batch)["output dissimilarity, scale-free"]
    mean = (4 * found["within"] + 24 * found["across"]) / 28
    assert mean.tolist() == pytest.approx(known.tolist(), abs=1e-6)
    assert (found["within"] - found["across"]).abs().min() > 1e-4


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
