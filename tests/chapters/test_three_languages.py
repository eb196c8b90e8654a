"""Page 15: roles of real heads against an independent count, and tables from known ones."""

import pandas as pd
import pytest
import torch

from headbook.chapters.specialised_heads import three_languages as page
from headbook.chapters.specialised_heads._released import ENGLISH, Reading, read, trees_of
from headbook.chapters.specialised_heads._roles import NAMES, Roles, columns_of
from headbook.heads.roles import roles
from headbook.looking.load import load
from headbook.types import UserError

SENTENCES = 30


@pytest.fixture(scope="module")
def found() -> Roles:
    reading = read(load("firefox-en-pt"), "ewt-sample", trees_of("ewt-sample", SENTENCES))
    return Roles.of(reading)


def test_heads_have_the_roles_that_the_role_measures_give(found: Roles) -> None:
    sums = found.sums
    reach = sums["positional"].ratio().shape[-1] // 2
    best = sums["offsets"].ratio().nan_to_num(-1).amax(0)
    offsets, values = torch.arange(-reach, reach + 1), sums["positional"].ratio()
    listed = roles(values, offsets, sums["syntactic"].ratio(), best, sums["rare"].ratio())
    assert listed
    heads = found.heads()
    held = heads[heads["role"] != "none"]
    expected = {(each.layer + 1, each.head + 1) for each in listed}
    assert set(zip(held["layer"], held["head"], strict=True)) == expected
    assert set(heads.query("nearness >= 1").index) == set(held.index)
    counts = {row["role"]: row["count"] for row in found.counts()}
    assert counts["any"] == len(held)
    assert counts["syntactic"] == len({(e.layer, e.head) for e in listed if e.role == "syntactic"})


def test_the_best_head_of_each_role_stands_beside_its_baseline(found: Roles) -> None:
    best = found.best().set_index("role")
    assert tuple(best.index) == page.ROLES
    relations = best.loc[list(NAMES)]
    assert (relations["value"] - relations["baseline"] - relations["over"]).abs().max() < 1e-9
    assert best.loc["previous token", ["layer", "head"]].tolist() == [6, 6]
    for role in page.ROLES:
        measure, column = columns_of(role)
        at = (best.loc[role, "layer"] - 1, best.loc[role, "head"] - 1, column)
        assert float(found.sums[measure].ratio(1)[at]) == pytest.approx(
            best.loc[role, "value"], nan_ok=True
        )


def test_claims_are_of_translation_models_on_parallel_text(found: Roles) -> None:
    assert not list(page._claims(found))
    given = found.reading
    there = Reading(given.model, ENGLISH, given.parsed, given.trees, given.batches)
    rows = {row["claim"]: row for row in page._claims(Roles(there, found.sums))}
    tracked = (found.best().set_index("role").loc[list(NAMES), "over"] >= 0.1).sum()
    assert rows["voita-f4-syntax-in-every-language"]["value"] == tracked
    kinds = found.heads()["role"].replace("next token", "previous token")
    assert rows["voita-f2-roles-in-every-language"]["value"] == kinds[kinds != "none"].nunique()


def test_a_text_without_trees_is_refused() -> None:
    with pytest.raises(UserError, match="multi30k-de is no treebank"):
        trees_of("multi30k-de")


def test_counts_stand_beside_the_papers() -> None:
    rows = [("firefox-en-pt", ENGLISH, "rare", 0, 48), ("minilm", "ewt-sample", "rare", 9, 72)]
    columns = ["model", "text", "role", "count", "heads"]
    counts = pd.DataFrame(rows, columns=columns)
    counts = pd.concat([counts, counts.assign(role="positional"), counts.assign(role="syntactic")])
    shown = page.counted({"role_counts": counts})
    assert shown["rare"].tolist() == ["1", "1", "1", "0"]
    assert shown["model"].iloc[-1] == "Firefox en→pt"
