"""Two tables head by head, and tables that are kept in files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from refusing import refused

import headbook as hb
from headbook.heads.bootstrap import poisson_weights
from headbook.looking.effects import loss
from headbook.looking.importance import by_gradient
from headbook.looking.measured import KEY
from headbook.models.gates import all_heads, closed
from headbook.types import HeadId, Kind

QUICK = {"nulls": 0, "progress": False, "diverse": False}
QUICKER = QUICK | {"importance": False, "decoder": False}


def test_a_difference_is_paired_and_roles_are_gained_and_lost(planted, sample, planted_table):
    """Two heads change places: each loses the other's role, and the rest stays to the bit."""
    layers = planted.network.blocks
    layers[0].plants[0], layers[0].plants[1] = layers[0].plants[1], layers[0].plants[0]
    try:
        after = hb.measure(planted, sample, ablated=2, **QUICK)
    finally:
        layers[0].plants[0], layers[0].plants[1] = layers[0].plants[1], layers[0].plants[0]
    found = hb.compare(planted_table, after)
    first, second, *others = found.itertuples(index=False)
    assert (first.gained, first.lost) == ("next token", "previous token")
    assert (second.gained, second.lost) == ("previous token", "next token")
    assert not any(each.gained or each.lost for each in others)
    assert (first.previous, first.previous_low, first.previous_high) == (-1, -1, -1)
    same = found.iloc[2:]
    for name in ("confidence", "previous", "rare", "dobj_head_to_dependent"):
        assert (same[[name, f"{name}_low", f"{name}_high"]] == 0).all(axis=None), name
    assert first.importance_ablation == pytest.approx(
        after["importance_ablation"][0] - planted_table["importance_ablation"][0]
    )
    few = hb.compare(planted_table[planted_table["layer"] == 1], after)
    pd.testing.assert_frame_equal(few, found.iloc[:4])


def test_an_interval_of_a_difference_is_that_of_its_replicates(ours, sample):
    """Narrower than that of independent measurements: both are drawn with the same sentences."""
    text = replace(sample, sentences=sample.sentences[:40], trees=sample.trees[:40])
    before = hb.measure(ours, text, **QUICKER)
    with hb.close(ours, ["L1H1"]):
        after = hb.measure(ours, text, **QUICKER)
    found = hb.compare(before, after)
    one, two = (each.attrs[KEY].sums["encoder"]["confidence"] for each in (before, after))
    drawn = (two.replicates() - one.replicates())[1:].flatten(1).numpy()
    ends = np.nanquantile(drawn, [0.025, 0.975], axis=0)
    np.testing.assert_allclose(found[["confidence_low", "confidence_high"]].T, ends)
    assert (found["confidence"][:2] == 0).all() and (found["confidence"][2:] != 0).all()
    np.testing.assert_allclose(found["confidence"], after["confidence"] - before["confidence"])


def test_importance_has_the_interval_of_its_sentences(ours, sample, monkeypatch):
    """By hand: every sentence's own importance before and after, drawn again for both alike."""
    text = replace(sample, sentences=sample.sentences[:12], trees=sample.trees[:12])
    monkeypatch.setattr(type(ours), "translate", lambda self, given: list(given)[::-1])
    batches = sorted(ours.batches(text.sentences, text.sentences[::-1], 1),
                     key=lambda batch: int(batch.sentences))  # fmt: skip
    drawn = poisson_weights(torch.arange(12), 200).numpy().T
    tables, gradient, ablation = [], [], []
    for silent in ([], [HeadId(Kind.ENCODER, 0, 1), HeadId(Kind.CROSS, 1, 0)]):
        with closed(ours.network, silent):
            tables.append(hb.measure(ours, text, ablated="all", **QUICK))
            each = np.stack([by_gradient(ours, [batch]).ratio().numpy() for batch in batches])
            gradient.append(drawn @ each / drawn.sum(1, keepdims=True))
            whole, tokens = loss(ours, batches)
        added = []
        for head in all_heads(ours.network):
            with closed(ours.network, [*silent, head]):
                added.append(loss(ours, batches)[0] - whole)
        ablation.append(drawn @ np.stack(added, 1) / (drawn @ tokens)[:, None])
    heads = [(str(each.kind), each.layer + 1, each.head + 1) for each in all_heads(ours.network)]
    found = hb.compare(*tables).set_index(["kind", "layer", "head"]).loc[heads]
    for name, (before, after) in (("gradient", gradient), ("ablation", ablation)):
        known = after - before
        ends = np.quantile(known[1:], [0.025, 0.975], axis=0)
        name = f"importance_{name}"
        columns = found[[name, f"{name}_low", f"{name}_high"]].T
        np.testing.assert_allclose(columns, [known[0], *ends], atol=1e-7)
        assert (found[name] != 0).any()


def test_no_interval_where_importance_is_of_other_sentences_or_heads(ours, planted_table, sample):
    text = replace(sample, sentences=sample.sentences[:12], trees=sample.trees[:12])
    ablation, gradient = (["importance_" + name + end for end in ("", "_low", "_high")]
                          for name in ("ablation", "gradient"))  # fmt: skip
    one, two = (hb.measure(ours, text, ablated=count, **QUICK) for count in (4, 5))
    found = hb.compare(one, two)
    assert found[ablation].isna().all().tolist() == [False, True, True]
    assert (found[gradient] == 0).all(axis=None) and found["confidence_low"].eq(0).all()
    two.attrs[KEY] = replace(one.attrs[KEY], targeted="others")
    found = hb.compare(one, two)
    assert found[ablation + gradient].isna().all().tolist() == [False, True, True] * 2
    assert found["confidence_low"].notna().tolist() == (found["kind"] == "encoder").tolist()
    sums = {kind: dict(own) for kind, own in one.attrs[KEY].sums.items()}
    known = sums[Kind.ENCODER]["importance_ablation"].numerator.clone()
    known[:, :, 0] = torch.nan  # not removed
    sums[Kind.ENCODER]["importance_ablation"] = replace(
        sums[Kind.ENCODER]["importance_ablation"], numerator=known
    )
    two.attrs[KEY] = replace(one.attrs[KEY], sums=sums)
    empty = hb.compare(one, two)[ablation].isna().all(axis=1)
    assert empty.tolist() == ((found["kind"] == "encoder") & (found["layer"] == 1)).tolist()
    vectors = planted_table.copy()
    vectors.attrs[KEY] = replace(planted_table.attrs[KEY], importance="other unit")
    assert "importance_ablation" not in hb.compare(planted_table, vectors)


def test_tables_that_cannot_be_compared(planted, sample, planted_table, ours):
    other = replace(sample, sentences=sample.sentences[:50], trees=sample.trees[:50])
    few = hb.measure(planted, other, **QUICKER)
    models = hb.measure(ours, sample, **QUICKER)
    for wrong in (few, models, pd.DataFrame({"x": [1]})):
        with refused():
            hb.compare(planted_table, wrong)


def test_a_table_that_was_kept_answers_as_before(planted_table, tmp_path: Path):
    file = hb.save(planted_table, tmp_path / "kept" / "heads.safetensors")
    read = hb.read(file)
    pd.testing.assert_frame_equal(read, planted_table)
    for held in (True, False):
        pd.testing.assert_frame_equal(hb.roles(read, held=held), hb.roles(planted_table, held=held))
    of, was = read.attrs[KEY], planted_table.attrs[KEY]
    assert (of.model, of.notes, of.sentences) == (was.model, was.notes, was.sentences)
    pd.testing.assert_frame_equal(of.diversity, was.diversity)


def test_tables_of_other_files_say_what_they_lack(planted_table, tmp_path: Path):
    planted_table.to_parquet(tmp_path / "heads.parquet")
    planted_table.to_csv(tmp_path / "heads.csv", index=False)
    for read in (pd.read_parquet(tmp_path / "heads.parquet"), pd.read_csv(tmp_path / "heads.csv")):
        for asked in (hb.roles, lambda table: hb.save(table, tmp_path / "x")):
            with refused(r"hb\.save"):
                asked(read)
    for file in ("heads.csv", "nothing"):
        with refused():
            hb.read(tmp_path / file)
    two = planted_table.copy()
    two.attrs[KEY] = replace(planted_table.attrs[KEY], model="other")
    assert not pd.concat([planted_table, two]).attrs, "of two tables neither's remains"


def test_roles_of_some_rows_are_of_these_heads(planted_table):
    every = hb.roles(planted_table)
    for rows in (
        planted_table["layer"] == 1,
        planted_table["head"] == 2,
        planted_table["head"] > 9,
    ):
        found, wanted = hb.roles(planted_table[rows]), planted_table[rows]
        own = every.merge(wanted[["kind", "layer", "head"]])
        assert len(found) == len(own) and set(found["role"]) == set(own["role"])
    with refused("no head"):
        hb.plots.heads(found, "score")
