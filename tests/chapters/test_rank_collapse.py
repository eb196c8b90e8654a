"""Page 46: each variant leaves out what it says, and the claims follow the rows."""

import pandas as pd
import pytest
import torch

from headbook.chapters.why.rank_collapse import (
    ALONE,
    FULL,
    MLP,
    SKIP,
    claims,
    exponents,
    power_rows,
    residuals,
)
from headbook.corpora.batches import in_order
from headbook.looking.sublayers import Encoder, Layer

AVERAGE = Layer(lambda x: x.mean(1, keepdim=True).expand_as(x), lambda x: x,
                lambda x: x, lambda x: x)  # fmt: skip


@pytest.fixture
def rows() -> pd.DataFrame:
    """Two layers of attention that averages all tokens: it collapses at once, with a skip never."""
    states = torch.randn(1, 4, 3, generator=torch.Generator().manual_seed(0))
    taken_apart = Encoder(lambda batch: states, [AVERAGE, AVERAGE])
    batches = list(in_order([([5, 6, 7, 2], [2])], 100)) * 2
    return pd.DataFrame(residuals(taken_apart, batches))


def test_averaging_attention_collapses_in_one_layer_and_only_the_skip_prevents_it(rows):
    value = rows.groupby(["variant", "layer"])["value"].mean()
    assert value[ALONE, 1] < 1e-6 and value[MLP, 2] < 1e-6
    assert value[SKIP, 2] > 0.05 and value[FULL, 2] > 0.05
    assert value[ALONE, 0] == value[FULL, 0] > 0.5


def test_claims_read_the_last_layer_and_for_the_feed_forward_part_all_layers(rows):
    found = claims(rows.assign(model="toy", weights="released")).set_index("claim")["value"]
    value = rows.groupby(["variant", "layer"])["value"].mean()
    assert found["collapse-skip-prevents"] == pytest.approx(value[SKIP, 2])
    assert found["collapse-feed-forward-slows"] == pytest.approx(0, abs=1e-6)


def test_drawn_attention_cubes_what_sets_tokens_apart_in_every_layer():
    found = exponents(pd.DataFrame(power_rows()))
    assert found.to_numpy() == pytest.approx([3, 9], rel=0.05)
    powers = pd.DataFrame({"layers": 1, "before": [0.1, 0.2], "behind": [0.01, 0.04]})
    assert exponents(powers)[1] == pytest.approx(2)
