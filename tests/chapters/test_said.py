"""Page 25's mutual information: heads whose outputs are known, its correlation with removal."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from headbook.chapters.sixteen import _said
from headbook.chapters.sixteen._said import (
    INFORMATION,
    REDRAWN,
    RELEASED,
    Sayings,
    correlations,
    published_removals,
    said,
    with_removal,
)
from headbook.corpora.batches import EOS, Batch
from headbook.models.capture import Point
from headbook.tables import typed
from headbook.types import Kind, UserError

TOKENS, KINDS, DIM = 600, 4, 8
FAITHFUL, LATE, MUTE, IDLE = range(4)
"""Heads: says the token it reads, the one before, noise; weighs all tokens alike."""


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """One layer of four heads on one sentence of four kinds of token in random order."""
    noise = torch.Generator().manual_seed(0)
    source = torch.randint(KINDS, (1, TOKENS), generator=noise) + 3
    source[0, -1] = EOS
    empty = torch.zeros(1, 1, dtype=torch.long)
    batch = Batch(source, empty, empty, torch.tensor([0]))
    keys = torch.randperm(TOKENS - 1, generator=noise)  # every head reads these
    weights = torch.zeros(1, 4, TOKENS, TOKENS)
    weights[:, :IDLE, torch.arange(TOKENS - 1), keys] = 1.0
    weights[:, IDLE] = 1 / TOKENS
    outputs = torch.zeros(1, 4, TOKENS, DIM)
    vectors = torch.eye(KINDS + 3, DIM)
    outputs[0, FAITHFUL, :-1] = vectors[source[0, keys]]
    outputs[0, LATE, :-1] = vectors[source[0, keys.roll(1)]]
    outputs[0, MUTE:] = torch.randn(2, TOKENS, DIM, generator=noise)
    sayings = Sayings(Kind.ENCODER)
    tape = {(Kind.ENCODER, Point.WEIGHTS): [weights], (Kind.ENCODER, Point.CONTEXT): [outputs]}
    sayings.update(tape, batch)
    return pd.DataFrame(sayings.rows(torch.arange(3, 3 + KINDS)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_head_that_says_what_it_reads_has_all_of_the_entropy(rows: pd.DataFrame) -> None:
    one = rows.iloc[FAITHFUL]
    assert one["tokens"] == TOKENS - 1  # EOS reads nothing
    assert one["entropy"] == pytest.approx(math.log(KINDS), abs=0.02)
    assert one[INFORMATION] + one["shuffled"] == pytest.approx(one["entropy"])


def test_a_head_that_says_something_else_has_none(rows: pd.DataFrame) -> None:
    assert rows.iloc[[LATE, MUTE]][INFORMATION].abs().max() < 0.05
    assert rows.iloc[MUTE]["shuffled"] > 0.05  # the bias, which is taken off


def test_a_head_without_a_largest_weight_reads_nothing(rows: pd.DataFrame) -> None:
    assert rows.iloc[IDLE]["entropy"] == rows.iloc[IDLE][INFORMATION] == 0


def heads(informed: bool = True, redrawn: float = -1.0) -> pd.DataFrame:
    """Two layers of eight heads; what they say follows removal, drawn anew as `redrawn` says."""
    noise = np.random.default_rng(0)
    added = np.arange(16.0)
    rows = {
        "layer": np.repeat([1, 2], 8), "head": np.tile(np.arange(1, 9), 2), "added": added,
        "added_first": added, "added_second": added, "kind": "encoder", "model": "toy",
        INFORMATION: added if informed else noise.permutation(added),
        **{name: noise.random(16) for name in ("shuffled", "entropy", "confidence")},
    }  # fmt: skip
    anew = {**rows, INFORMATION: redrawn * added}
    return pd.concat([pd.DataFrame(each).assign(weights=name)
                      for name, each in ((RELEASED, rows), (REDRAWN, anew))])  # fmt: skip


def test_correlations_are_scipys_and_layers_can_hide_them() -> None:
    own = heads(informed=False).query("weights == @RELEASED")
    assert correlations(own, INFORMATION)[0] == pytest.approx(
        spearmanr(own[INFORMATION], own["added"]).statistic
    )
    upside_down = own.assign(**{INFORMATION: 100 * own["layer"] - own["added"]})
    found = with_removal({"said": upside_down}).set_index("key")["value"]
    assert found[INFORMATION] > 0 and found["within"] == pytest.approx(-1)
    assert found["added_second"] == pytest.approx(1)


def test_what_a_null_network_shows_as_well_closes_the_gate() -> None:
    for redrawn, closed in ((-1.0, "none"), (1.0, "diagnostic: ")):
        rows = pd.DataFrame(_said._claims(heads(redrawn=redrawn))).set_index("claim")
        agrees = rows.loc["information-agrees-with-removal"]
        assert agrees["value"] == pytest.approx(1) and agrees["closed"].startswith(closed)
        assert rows.loc["information-beyond-confidence", "closed"] == "none"
        assert agrees["baseline"] == pytest.approx(redrawn)


def test_what_shuffled_tokens_show_as_well_closes_the_gate() -> None:
    told = heads()
    rows = pd.DataFrame(_said._claims(told.assign(shuffled=told["added"]))).set_index("claim")
    closed = rows["closed"].str.startswith("diagnostic: ")
    assert closed["information-agrees-with-removal"] and closed["information-within-layer"]
    assert not closed["information-beyond-confidence"]


def test_models_that_were_only_read_have_no_correlation() -> None:
    read = heads().drop(columns=["added"]).assign(model="read", added=np.nan)
    found = with_removal({"said": pd.concat([heads(), read])})
    assert set(found["heads"]) == {"toy, encoder"}


@pytest.mark.parametrize("ablated", [1, 41, -1])
def test_removal_on_no_such_sentences_is_one_line(ablated: int) -> None:
    with pytest.raises(UserError, match=f"ablated is {ablated}; give 0, or 2 to 40") as caught:
        said(("minilm",), ("ewt-sample",), 40, ablated)
    assert "\n" not in str(caught.value)


def test_removal_as_published_is_that_of_each_head() -> None:
    student = published_removals("firefox-en-pt")
    rows = typed("20", "heads")
    own = rows.query("model == 'firefox-en-pt' and text == 'ntrex-pt'").set_index("head")
    found = student.set_index(["kind", "layer", "head"])
    assert len(found) == len(own) == 64
    assert found.loc[("encoder", 6, 6), "added"] == own.loc["L6H6", "own_added"]
    assert found.loc[("cross", 1, 6), "added"] == own.loc["cross L1H6", "own_added"]
    assert (found["added"] != found["added_second"]).any()
    assert len(published_removals("minilm")) == 72
    assert published_removals("nobody's").empty
