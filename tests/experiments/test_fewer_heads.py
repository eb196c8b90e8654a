"""Page 38's trainings: what is shared is counted, and pairs of heads are told apart by group."""

import pytest
import torch
from small import backwards, write_pairs

from headbook.experiments import fewer_heads
from headbook.experiments.dropping_heads import Setting
from headbook.experiments.fewer_heads import DELIGHT, WHOLE, by_group, network_of
from headbook.looking.diversity import diversity
from headbook.models.transformer import TransformerConfig
from headbook.text.batches import collate
from headbook.types import Kind

WORDS = ["the", "a", "old", "red", "dog", "cat", "man", "ball", "house", "sees", "likes", "finds"]
PAIRS = "8 heads, 4 shared"


def test_pairs_within_and_across_groups_are_all_pairs():
    torch.manual_seed(0)
    network = network_of(PAIRS, TransformerConfig(12, 12, 0, 2, 32, 64, 8)).eval()
    batch = [collate([([1], [3, 4, 5, 6, 7, 8])], [0])]
    found = by_group(network, (), batch)
    known = diversity(network, (Kind.DECODER,), batch)["output dissimilarity, scale-free"]
    mean = (4 * found["within"] + 24 * found["across"]) / 28
    assert mean.tolist() == pytest.approx(known.tolist(), abs=1e-6)
    assert (found["within"] - found["across"]).abs().min() > 1e-4


def test_variants_of_a_seed(tmp_path_factory: pytest.TempPathFactory):
    rows = [[WORDS[(at + 5 * step) % 12] for step in range(4 + at % 3)] for at in range(84)]
    corpus = write_pairs(tmp_path_factory.mktemp("text") / "corpus", backwards(rows), 60, 12)
    tiny = Setting(str(corpus), 60, 16, 32, 2, 0.0, 10, 0.8, 4, 0.0, 5, 5, 2)
    quality, averaged, groups = fewer_heads.sweep(1, tiny, (WHOLE, PAIRS, DELIGHT))
    own = quality.set_index("variant")
    assert own.at[PAIRS, "cached_numbers"] == own.at[WHOLE, "cached_numbers"] / 2
    assert own.at[DELIGHT, "blocks_million"] < own.at[WHOLE, "blocks_million"]
    assert own["test_nats"].between(0.1, 4.5).all() and own["test_nats"].nunique() == 3
    assert averaged["groups"].tolist() == [4, 2, 1] and averaged["averaged_nats"].gt(0.1).all()
    assert groups["layer"].tolist() == [1, 2] and set(groups["variant"]) == {PAIRS}
