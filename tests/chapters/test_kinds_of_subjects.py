"""Page 13: arcs of verbs and subjects, apart for pronouns and for every other subject."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from headbook.chapters.specialised_heads import _kinds_of_subjects as page
from headbook.chapters.specialised_heads import syntactic_heads
from headbook.chapters.specialised_heads._released import Reading, read, trees_of
from headbook.chapters.specialised_heads._roles import NAMES
from headbook.looking.load import load
from headbook.syntax.alignment import AlignedTree
from headbook.trees import RELATION_DIRECTIONS


@pytest.fixture(scope="module")
def reading() -> Reading:
    return read(load("mixture-fr-256"), "ewt-sample", trees_of("ewt-sample", 60))


@pytest.fixture(scope="module")
def sums(reading: Reading) -> dict:
    return reading.sums(syntactic_heads._measures(reading))


def test_only_subjects_of_the_kind_stay_and_every_other_arc():
    """She reads books: the subject is a pronoun; (she, reads), (books, reads)."""
    tree = AlignedTree(
        torch.arange(3), torch.tensor([[0, 0, 1], [1, 2, 1]]), 0, ("PRON", "VERB", "NOUN")
    )
    assert page.with_subjects(tree, pronouns=True).arcs.tolist() == [[0, 0, 1], [1, 2, 1]]
    assert page.with_subjects(tree, pronouns=False).arcs.tolist() == [[1, 2, 1]]
    none = replace(tree, arcs=tree.arcs[:0])
    assert page.with_subjects(none, pronouns=True).arcs.shape == (0, 3)


def test_arcs_of_both_kinds_add_up_to_all(sums: dict):
    whole, *parts = (sums[name].denominator[:, 0, 0, 0].sum(0)
                     for name in ("heads", *(f"heads, {kind}" for kind in page.KINDS)))  # fmt: skip
    of_subjects = torch.tensor([relation == "nsubj" for relation, _ in RELATION_DIRECTIONS])
    assert torch.equal(sum(parts)[of_subjects], whole[of_subjects])
    assert all(torch.equal(part[~of_subjects], whole[~of_subjects]) for part in parts)
    assert all((part[of_subjects] > 10).all() for part in parts)


def test_the_head_is_the_page_s_best_and_its_accuracy_lies_between_the_kinds(
    reading: Reading, sums: dict
):
    best = syntactic_heads._best(reading, sums).set_index("relation")
    rows = list(page.rows(reading, sums))
    assert [row["subjects"] for row in rows] == ["pronouns"] * 2 + ["other subjects"] * 2
    for relation in ("verb → subject", "subject → verb"):
        own = [row for row in rows if row["relation"] == relation]
        for row in own:
            assert (row["layer"], row["head"]) == tuple(best.loc[relation, ["layer", "head"]])
            assert row["margin"] == pytest.approx(row["value"] - row["baseline"])
        ends = [row["value"] for row in own]
        assert min(ends) <= best.loc[relation, "value"] <= max(ends)


def test_a_text_without_tags_has_no_rows(reading: Reading):
    bare = replace(reading, trees=[replace(tree, tags=()) for tree in reading.trees])
    assert page.measures(bare) == {}
    assert not list(
        page.rows(bare, {"heads": bare.sums(syntactic_heads._measures(reading))["heads"]})
    )


def test_the_summary_has_a_row_per_relation_and_text_and_a_column_per_model():
    """Offset and rule stand there once, as a range where models differ in them."""
    columns = ["model", "text", "value", "baseline"]
    cells = [("minilm", "ud-ewt", 0.5, 0.3), ("mixture-fr-256", "ud-ewt", 0.4, 0.326),
             ("minilm", "ud-pud-en", 0.2, 0.3)]  # fmt: skip
    rows = pd.concat(
        [pd.DataFrame(cells, columns=columns).assign(relation=name) for name in NAMES]
    ).assign(sentences=4078, layer=3, head=1, rule=0.9)
    found = syntactic_heads.summary({"released": rows})
    assert len(found) == 2 * len(NAMES) and list(found["relation"][::2]) == list(NAMES)
    first, second = found.iloc[0], found.iloc[1]
    percent = "\N{NO-BREAK SPACE}%"
    assert first["text"] == "EWT (4,078)" and first["offset"] == f"30 to 33{percent}"
    assert first["MiniLM"] == f"L3H1 50{percent}" and first["rule"] == f"90{percent}"
    assert second["Our en→fr model"] == "" and second["MiniLM"] == f"L3H1 20{percent}"
