"""The table: planted heads are found, numbers are those of the measures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from small import told

import headbook as hb
from headbook.heads.collect import layer_sums
from headbook.looking.importance import by_ablation, resolved
from headbook.looking.measured import measured
from headbook.looking.ours import OurModel
from headbook.looking.passes import measures
from headbook.looking.roles import NEXT, PREVIOUS, RARE, SYNTACTIC
from headbook.looking.text import Text
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.types import Kind

QUICK = {"importance": False, "decoder": False, "progress": False}


@pytest.fixture(scope="module")
def few() -> Text:
    return hb.text("ewt-sample", first=12)


@pytest.fixture(scope="module")
def our_table(ours: OurModel, few: Text) -> pd.DataFrame:
    return hb.measure(ours, few, nulls=2, **QUICK)


def test_planted_heads_have_their_known_values(planted_table: pd.DataFrame):
    table = planted_table.set_index(["layer", "head"])
    for head, column in enumerate(("previous", "next", "own", "other"), 1):
        assert table.loc[(1, head), column] == 1
        assert table[column].drop(index=[(1, head)]).max() < 0.7
    assert table.loc[(1, 4), "other_offset"] == 2
    assert table["neighbour_offset"][1][[1, 2]].tolist() == [-1, 1]
    assert table["neighbour"][1][[1, 3]].tolist() == [1, 0]
    assert (table.loc[(2, 1), ["rare", "rare_sentences"]] == 1).all()
    assert table.loc[(2, 2), "dobj_head_to_dependent"] == 1
    assert table.loc[(2, 2), "dobj_dependent_to_head"] < 0.1
    assert table.loc[(2, 4), ["special", "confidence", "entropy"]].tolist() == [1, 0, 0]
    assert table.loc[(1, 3), "special"] == 0 and table.loc[(2, 3), "entropy"] > 1
    row = planted_table.iloc[0]  # and baselines stand beside them
    assert 0.2 < row["dobj_head_to_dependent_offset"] < row["dobj_head_to_dependent_tags"] < 1
    assert 0 < row["rare_chance"] < 0.3


def test_planted_roles_are_found_and_no_others(planted_table: pd.DataFrame):
    found = hb.roles(planted_table)
    assert {(r.layer, r.head, r.role, r.detail) for r in found.itertuples()} == {
        (1, 1, PREVIOUS, "-1"),
        (1, 2, NEXT, "+1"),
        (2, 1, RARE, "one of two rarest"),
        (2, 2, SYNTACTIC, "dobj_head_to_dependent"),
    }
    assert (found["score"] == 1).all() and (found["chosen"] == 1).all()
    every = hb.roles(planted_table, held=False)
    assert len(every) == 8 * (2 + 8 + 1) and every["held"].sum() == 4


def positional_times(table: pd.DataFrame, *halves: float) -> pd.DataFrame:
    """What points at an offset, of each half of the sentences so much of it."""
    sums = dict(measured(table).sums[Kind.ENCODER])
    numerator = torch.stack(
        [each * by for each, by in zip(sums["positional"].numerator, halves, strict=True)]
    )
    sums["positional"] = replace(sums["positional"], numerator=numerator)
    return told(table, sums={Kind.ENCODER: sums})


def test_a_role_is_chosen_on_one_half_and_scored_on_the_other_from_its_threshold_on(
    planted_table: pd.DataFrame,
):
    for halves, held in (((0.91, 0.91), True), ((1, 0.89), False), ((0.89, 1), False)):
        found = set(hb.roles(positional_times(planted_table, *halves))["role"])
        assert ({PREVIOUS, NEXT} <= found) == held == bool({PREVIOUS, NEXT} & found)
    assert (hb.roles(positional_times(planted_table, 1, 0), held=False)["chosen"] == 1).sum() == 4


def test_what_a_network_that_has_learnt_nothing_does_as_well_is_no_role(
    planted_table: pd.DataFrame,
):
    of = measured(planted_table)
    positional = torch.ones(of.sums[Kind.ENCODER]["positional"].numerator.shape[-1])
    table = told(planted_table, nulls={**of.nulls, "positional": positional})
    assert set(hb.roles(table)["role"]) == {RARE, SYNTACTIC}


def test_dependencies_are_as_answers_counts_them_with_their_intervals(
    our_table: pd.DataFrame, ours: OurModel, few: Text
):
    counts = hb.answers(ours, few)
    shares = hb.shares(counts.right, counts.asked)[:, :, 0]
    low, high = np.nanquantile(shares[1:], [0.025, 0.975], axis=0)
    offset = hb.shares(counts.offsets, counts.asked, replicates=0)[0, :, 0].max()
    for end, wanted in (("", shares[0]), ("_low", low), ("_high", high), ("_offset", offset)):
        np.testing.assert_allclose(our_table[f"nsubj_head_to_dependent{end}"], wanted)


def test_nulls_are_the_largest_over_heads_and_networks(
    our_table: pd.DataFrame, ours: OurModel, few: Text
):
    batches = ours.batches(few.sentences)
    found = [
        layer_sums(null.network, batches, Kind.ENCODER, measures(Kind.ENCODER), 0)[
            "positional"
        ].ratio()
        for null in hb.nulls(ours, 2)
    ]
    first, second = (each.flatten(0, 1).amax(0) for each in found)
    assert (first > second).any() and (second > first).any()
    largest = torch.maximum(first, second)
    torch.testing.assert_close(measured(our_table).nulls["positional"], largest)
    assert our_table["previous_null"].iloc[0] == float(largest[4])


def test_sentences_are_added_until_the_heads_are_resolved(ours: OurModel):
    few, heads = hb.text("ewt-sample", first=20).sentences, all_heads(ours.network)
    batches = ours.batches(few, few[::-1])
    found, count = resolved(ours, batches, 20, iter, heads)
    low, high = found.interval()
    whole = by_ablation(ours, batches)
    assert count == 20 and ((low <= 0) & (high >= 0)).any()
    for own, theirs in zip((found.ratio(), low, high), (whole.ratio(), *whole.interval()),
                            strict=True):  # fmt: skip
        torch.testing.assert_close(own, theirs)
    clear = [head for head, one, two in zip(heads, low, high, strict=True) if one > 0 or two < 0]
    counts = {resolved(ours, batches, 20, iter, [head])[1] for head in clear}
    assert counts and max(counts) < 20


def test_layers_may_have_unequal_numbers_of_heads(
    planted: Loaded, planted_table: pd.DataFrame, sample: Text
):
    plants = [block.plants for block in planted.network.blocks]
    vocabulary = planted.network.values.num_embeddings
    network = type(planted.network)([plants[0], plants[1][:2]], vocabulary)
    model = replace(planted, network=network)
    table = hb.measure(model, sample, nulls=0, ablated=2, progress=False)
    same = [name for name in planted_table if not name.startswith("importance")]
    pd.testing.assert_frame_equal(table[same], planted_table[same].head(6))
    known = hb.roles(planted_table, held=False)
    known = known[known["layer"].eq(1) | known["head"].lt(3)].reset_index(drop=True)
    pd.testing.assert_frame_equal(hb.roles(table, held=False), known)
    assert measured(table).diversity["context non-orthogonality, scale-free"].notna().all()


def test_a_text_without_trees_or_in_another_language_has_no_syntax(ours: OurModel, few: Text):
    bare, parsed = replace(few, trees=(), parser="none"), replace(few, parser="en_core_web_sm 3.8")
    foreign = replace(ours, languages=("pt", "en"))
    for model, given, said in ((ours, bare, "no trees"), (foreign, parsed, "reads pt")):
        table = hb.measure(model, given, nulls=0, **QUICK)
        assert said in measured(table).notes[0]
        assert set(hb.roles(table, held=False)["role"]) == {PREVIOUS, NEXT, RARE}
