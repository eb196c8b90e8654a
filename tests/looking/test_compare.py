"""Two tables head by head, and tables that are kept in files."""

import copy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from refusing import refused
from small import told

import headbook as hb
from headbook.heads.bootstrap import poisson_weights
from headbook.looking.effects import loss
from headbook.looking.importance import by_gradient
from headbook.looking.measured import measured
from headbook.models.gates import all_heads, closed
from headbook.types import HeadId, Kind

QUICK = {"nulls": 0, "progress": False, "diverse": False}
QUICKER = QUICK | {"importance": False, "decoder": False}


def test_a_difference_is_paired_and_roles_are_gained_and_lost(planted, sample, planted_table):
    """Two heads change places: each loses the other's role, and the rest stays to the bit."""
    turned = copy.deepcopy(planted)
    turned.network.blocks[0].plants[:2] = turned.network.blocks[0].plants[1::-1]
    after = hb.measure(turned, sample, ablated=2, **QUICK)
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


def test_importance_has_the_interval_of_its_sentences(ours, sample, monkeypatch):
    """By hand: every sentence's own importance before and after, drawn again for both alike."""
    text = hb.text("ewt-sample", first=12)
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
        np.testing.assert_allclose(columns, [known[0], *ends], atol=1e-6)
        assert (found[name] != 0).any()


def test_no_interval_where_importance_is_of_other_sentences_or_heads(
    ours, planted_table, monkeypatch
):
    monkeypatch.setattr(type(ours), "translate", lambda self, given: list(given)[::-1])
    text = hb.text("ewt-sample", first=6)
    ablation, gradient = (["importance_" + name + end for end in ("", "_low", "_high")]
                          for name in ("ablation", "gradient"))  # fmt: skip
    one, two = (hb.measure(ours, text, ablated=count, **QUICK) for count in (4, 5))
    found = hb.compare(one, two)
    assert found[ablation].isna().all().tolist() == [False, True, True]
    assert (found[gradient] == 0).all(axis=None) and found["confidence_low"].eq(0).all()
    found = hb.compare(one, told(one, targeted="others"))
    assert found[ablation + gradient].isna().all().tolist() == [False, True, True] * 2
    assert found["confidence_low"].notna().tolist() == (found["kind"] == "encoder").tolist()
    other = told(planted_table, importance="other unit")
    assert "importance_ablation" not in hb.compare(planted_table, other)


def test_tables_that_cannot_be_compared(planted, planted_table, ours):
    few = hb.measure(planted, hb.text("ewt-sample", first=50), **QUICKER)
    models = hb.measure(ours, hb.text("ewt-sample", first=200), **QUICKER)
    for wrong in (few, models, pd.DataFrame({"x": [1]})):
        with refused():
            hb.compare(planted_table, wrong)


def test_a_table_that_was_kept_answers_as_before(planted_table, tmp_path: Path):
    file = hb.save(planted_table, tmp_path / "kept" / "heads.safetensors")
    read = hb.read(file)
    pd.testing.assert_frame_equal(read, planted_table)
    for held in (True, False):
        pd.testing.assert_frame_equal(hb.roles(read, held=held), hb.roles(planted_table, held=held))
    of, was = measured(read), measured(planted_table)
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
    both = pd.concat([planted_table, told(planted_table, model="other")])
    assert not both.attrs, "of two tables neither's remains"


def test_roles_of_some_rows_are_of_these_heads(planted_table):
    every = hb.roles(planted_table)
    for rows in (planted_table["layer"] == 1, planted_table["head"] > 9):
        found = hb.roles(planted_table[rows])
        own = every.merge(planted_table[rows][["kind", "layer", "head"]])
        assert len(found) == len(own) and set(found["role"]) == set(own["role"])
    with refused("no head"):
        hb.plots.heads(found, "score")
