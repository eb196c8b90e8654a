"""The table: planted heads are found, numbers are those of the measures, importance is exact."""

import copy
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from refusing import refused

import headbook as hb
from headbook.looking.importance import by_ablation, first_by, operations, resolved
from headbook.looking.measured import measured
from headbook.looking.ours import OurModel
from headbook.looking.passes import measured as measured_on
from headbook.looking.passes import measures
from headbook.looking.roles import NEXT, PREVIOUS, RARE, SINK, SYNTACTIC
from headbook.looking.text import Text
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.training.scoring import nats
from headbook.types import Kind, UserError


@pytest.fixture(scope="module")
def few(sample: Text) -> Text:
    return replace(sample, sentences=sample.sentences[:12], trees=sample.trees[:12])


@pytest.fixture(scope="module", autouse=True)
def short_translations() -> Iterator[None]:
    """An untrained model's own translations go on until they are cut off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OurModel, "translate", lambda self, given: [each[:12] for each in given])
        yield


@pytest.fixture(scope="module")
def our_table(ours: OurModel, few: Text, short_translations: None) -> pd.DataFrame:
    return hb.measure(ours, few, nulls=2, ablated=2, progress=False)


def cell(table: pd.DataFrame, layer: int, head: int, column: str, kind: str = "encoder") -> float:
    (row,) = table[
        (table["kind"] == kind) & (table["layer"] == layer) & (table["head"] == head)
    ].to_dict("records")
    return row[column]


def test_planted_heads_have_their_known_values(planted_table: pd.DataFrame):
    table = planted_table
    assert len(table) == 8 and set(table["kind"]) == {"encoder"}
    for head, column in ((1, "previous"), (2, "next"), (3, "own"), (4, "other")):
        assert cell(table, 1, head, column) == 1
        assert table[column].drop(index=head - 1).max() < 0.7
    assert cell(table, 1, 4, "other_offset") == 2
    assert [cell(table, 1, head, "neighbour_offset") for head in (1, 2)] == [-1, 1]
    assert cell(table, 1, 1, "neighbour") == 1 and cell(table, 1, 3, "neighbour") == 0
    assert cell(table, 2, 1, "rare") == cell(table, 2, 1, "rare_sentences") == 1
    assert cell(table, 2, 2, "dobj_head_to_dependent") == 1
    assert cell(table, 2, 2, "dobj_dependent_to_head") < 0.1
    assert cell(table, 2, 4, "special") == 1 and cell(table, 1, 3, "special") == 0
    assert cell(table, 2, 4, "confidence") == 0 and cell(table, 2, 4, "entropy") == 0
    assert cell(table, 2, 3, "entropy") > 1
    row = table.iloc[0]  # and baselines stand beside them
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


def test_a_role_is_chosen_on_one_half_and_scored_on_the_other(planted_table: pd.DataFrame):
    table = planted_table.copy()
    of = measured(table)
    sums = dict(of.sums[Kind.ENCODER])
    positional = sums["positional"]
    numerator = positional.numerator.clone()
    numerator[1] = 0
    sums["positional"] = replace(positional, numerator=numerator)
    table.attrs["headbook"] = replace(of, sums={Kind.ENCODER: sums})
    assert not {PREVIOUS, NEXT} & set(hb.roles(table)["role"])
    assert (hb.roles(table, held=False)["chosen"] == 1).sum() == 4


def test_what_a_network_that_has_learnt_nothing_does_as_well_is_no_role(
    planted_table: pd.DataFrame,
):
    table, of = planted_table.copy(), measured(planted_table)
    positional = torch.ones(of.sums[Kind.ENCODER]["positional"].numerator.shape[-1])
    table.attrs["headbook"] = replace(of, nulls={**of.nulls, "positional": positional})
    assert set(hb.roles(table)["role"]) == {RARE, SYNTACTIC}


def test_without_a_loss_importance_is_of_the_sentence_vector(planted_table: pd.DataFrame):
    assert "importance_gradient" not in planted_table
    assert (planted_table["importance_ablation"] > 0).all()
    assert measured(planted_table).importance == "1 - cosine of the sentence vector"


def test_dependencies_are_as_answers_counts_them_with_their_intervals(
    our_table: pd.DataFrame, ours: OurModel, few: Text
):
    table, counts = our_table[our_table["kind"] == "encoder"], hb.answers(ours, few)
    shares = hb.shares(counts.right, counts.asked)[:, :, 0]
    np.testing.assert_allclose(table["nsubj_head_to_dependent"], shares[0])
    low, high = np.nanquantile(shares[1:], [0.025, 0.975], axis=0)
    np.testing.assert_allclose(table["nsubj_head_to_dependent_low"], low)
    np.testing.assert_allclose(table["nsubj_head_to_dependent_high"], high)
    offset = hb.shares(counts.offsets, counts.asked, replicates=0)[0, :, 0].max()
    np.testing.assert_allclose(table["nsubj_head_to_dependent_offset"], offset)


def test_every_kind_of_attention_has_its_heads(our_table: pd.DataFrame):
    assert our_table.groupby("kind").size().to_dict() == {"encoder": 4, "decoder": 4, "cross": 4}
    others = our_table[our_table["kind"] != "encoder"]
    assert others[["rare", "nsubj_head_to_dependent", "confidence_null"]].isna().all(axis=None)
    wanted = {"all": 12, "nulls": 12, "translated": 12, "ablated": 2}
    assert measured(our_table).sentences == wanted


def test_nulls_are_the_largest_over_heads_and_networks(
    our_table: pd.DataFrame, ours: OurModel, few: Text
):
    of = measured(our_table)
    batches = ours.batches(few.sentences)
    found = [
        measured_on(null.network, batches, measures(Kind.ENCODER), 0)["positional"].ratio()
        for null in hb.nulls(ours, 2)
    ]
    first, second = (each.flatten(0, 1).amax(0) for each in found)
    assert (first > second).any() and (second > first).any()
    torch.testing.assert_close(of.nulls["positional"], torch.maximum(first, second))
    assert our_table["previous_null"].iloc[0] == float(torch.maximum(first, second)[4])
    assert "special" not in of.nulls


def test_the_table_survives_pandas(our_table: pd.DataFrame):
    part = our_table[our_table["layer"] == 1].sort_values("confidence").reset_index(drop=True)
    assert measured(part) is measured(our_table) is measured(copy.deepcopy(our_table))
    assert str(pd.concat([part, our_table]))
    with pytest.raises(UserError, match="measure again"):
        hb.roles(pd.DataFrame({"layer": [1]}))


def test_ablation_is_the_loss_without_the_head(ours: OurModel, sample: Text):
    source, target = sample.sentences[:3], sample.sentences[1:4]
    found = by_ablation(ours, ours.batches(source, target)).ratio()
    pairs = list(zip(ours.source.encode(source), ours.target.encode(target), strict=True))
    whole = nats(ours.network, pairs, 500)
    for head, value in zip(all_heads(ours.network), found.tolist(), strict=True):
        with closed(ours.network, [head]):
            without = nats(ours.network, pairs, 500)
        assert value == pytest.approx(without - whole, abs=1e-6)


def test_one_head_in_ten_and_at_least_sixteen_is_removed(ours: OurModel):
    gradient = torch.arange(270.0).roll(100)
    assert first_by(gradient) == list(range(73, 100))
    assert len(first_by(gradient[:40])) == 16 and first_by(gradient[:9]) == list(range(9))
    weights = sum(each.numel() for each in ours.network.parameters())
    assert operations(ours.network, loss=False) < operations(ours.network, loss=True) == 2 * weights


def test_sentences_are_added_until_the_heads_are_resolved(ours: OurModel, sample: Text):
    few, heads = sample.sentences[:20], all_heads(ours.network)
    batches = ours.batches(few, few[::-1])
    found, count = resolved(ours, batches, 20, iter, heads)
    low, high = found.interval()
    whole = by_ablation(ours, batches)
    assert count == 20 and ((low <= 0) & (high >= 0)).any()
    torch.testing.assert_close(found.ratio(), whole.ratio())
    for own, theirs in zip(found.interval(), whole.interval(), strict=True):
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
    table = hb.measure(model, sample, nulls=1, ablated=2, progress=False)
    assert list(zip(table["layer"], table["head"], strict=True)) == [
        (1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2),
    ]  # fmt: skip
    same = [name for name in planted_table if not name.startswith("importance")]
    pd.testing.assert_frame_equal(table[same], planted_table[same].head(6))
    known = hb.roles(planted_table, held=False)
    known = known[known["layer"].eq(1) | known["head"].lt(3)].reset_index(drop=True)
    columns = ["layer", "head", "role", "score", "low", "high"]
    pd.testing.assert_frame_equal(hb.roles(table, held=False)[columns], known[columns])
    assert measured(table).diversity["context non-orthogonality, scale-free"].notna().all()


def test_a_text_without_trees_or_in_another_language_has_no_syntax(ours: OurModel, few: Text):
    few = replace(few, sentences=few.sentences[:5], trees=few.trees[:5])
    bare = replace(few, trees=(), parser="none")
    table = hb.measure(ours, bare, importance=False, nulls=0, progress=False)
    assert not [name for name in table if name.startswith("nsubj")]
    assert "no trees" in measured(table).notes[0] and "rare" in table
    assert set(hb.roles(table, held=False)["role"]) == {PREVIOUS, NEXT, RARE, SINK}
    same = hb.measure(ours, bare, importance=False, nulls=0, diverse=False, progress=False)
    assert same.equals(table) and measured(same).diversity.empty
    assert not measured(table).diversity.empty
    foreign = replace(ours, languages=("pt", "en"))
    parsed = replace(few, parser="en_core_web_sm 3.8")
    table = hb.measure(foreign, parsed, importance=False, nulls=0, progress=False)
    assert "reads pt" in measured(table).notes[0]


def test_senseless_numbers_are_refused(ours: OurModel, sample: Text):
    empty = replace(sample, sentences=(), trees=())
    for given, options, said in (
        (sample, {"nulls": -1}, "nulls is 0 or more"),
        (sample, {"ablated": 0}, "nulls is 0 or more"),
        (["No."], {}, r"hb\.text"),
        (empty, {}, "no sentence"),
    ):
        with refused(said):
            hb.measure(ours, given, **options)
