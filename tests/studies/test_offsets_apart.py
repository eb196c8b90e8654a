"""Published tables made to say which fixed offset they are about."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from headbook import paths
from headbook.studies import offsets_apart as study
from headbook.studies.kept_roles import ANY_NEARNESS
from headbook.studies.results import Tables, published
from headbook.types import UserError

HEADS = [
    # model, head, offset, share there, margin, rare
    ("near", "1", "-1", "0.6", "-0.2", "0.1"),
    ("near", "2", "+0", "0.3", "-0.2", "0.2"),  # 0.4 of the way to rare words, 0.33 at most else
    ("own", "1", "+0", "0.7", "-0.2", "0.2"),
    ("own", "2", "+3", "0.1", "0.05", "0.1"),
]
LABELS = {"kind": "encoder", "layer": "1", "update": "best"}


def old_scores() -> pd.DataFrame:
    columns = ["model", "head", "offset", "positional", "margin", "rare"]
    rows = pd.DataFrame(HEADS, columns=columns).assign(**LABELS)
    return rows.assign(positional_low=rows["positional"], positional_high=rows["positional"])


def eleven() -> Tables:
    largest = pd.DataFrame({"model": ["near"], "largest_positional": ["0.6"]})
    claims = pd.DataFrame({"claim": ["a"], "value": ["0"]})
    return {"scores": old_scores(), "roles": pd.DataFrame({"layer": []}), "training": largest,
            "choices": largest, "claims": claims}  # fmt: skip


@pytest.fixture
def scores() -> pd.DataFrame:
    return study.derived(study.ROLES, eleven(), old_scores())["scores"]


def test_a_best_offset_is_told_at_its_own_place_alone(scores: pd.DataFrame) -> None:
    found = scores[["own", "neighbour_offset", "neighbour", "other_offset", "other"]]
    assert found.to_numpy().tolist() == [
        ["", "-1", "0.6", "", ""],
        ["0.3", "", "", "", ""],
        ["0.7", "", "", "", ""],
        ["", "", "", "+3", "0.1"],
    ]
    assert not set(study.OLD) & set(scores.columns)
    assert scores["neighbour_low"].tolist() == ["0.6", "", "", ""]


def test_nearness_is_told_where_the_neighbour_cannot_matter(scores: pd.DataFrame) -> None:
    told = study.told_nearness(scores)["nearness"]
    assert told[[0, 1, 3]].tolist() == pytest.approx([0.6 / 0.9, 0.2 / 0.5, 0.05 / 0.1])
    assert pd.isna(told[2]), "0.7 at the own token leaves up to as much for a neighbour"
    assert study.untold_models(scores) == {"own"}


def test_the_sharpest_head_s_offset_is_told(scores: pd.DataFrame) -> None:
    told = study.offsets_told(scores)
    assert told.to_numpy().tolist() == [["near", "1", "1", "-1", "0.6"],
                                        ["own", "1", "1", "+0", "0.7"]]  # fmt: skip


def test_only_the_untold_numbers_go(scores: pd.DataFrame) -> None:
    claim = "voita-f8-nearest-a-role-last"
    numbers = dict.fromkeys(("value", "low", "high", "baseline"), "0.8")
    tables = {
        "pairs": pd.DataFrame({"model": ["near", "own"] * 2,
                               "score": ["nearness"] * 2 + ["positional"] * 2}),
        "functions": pd.DataFrame({"mean_positional": ["0.1"], "mean_nearness": ["0.2"]}),
        "claims": pd.DataFrame({"claim": claim, "model": ["near", "own"], **numbers}),
    }  # fmt: skip
    tables["kept_and_closed"] = tables["pairs"]
    found = study.derived("18_pruning_the_encoder", tables, scores)
    expected = ["nearness", ANY_NEARNESS, "any_offset", "any_offset"]
    assert found["pairs"]["score"].tolist() == expected
    assert list(found["functions"]) == ["mean_any_offset", "mean_nearness_any_offset"]
    assert found["claims"]["value"].tolist() == ["0.8", ""]
    (gone,) = study._withdrawn(tables["claims"], found["claims"])
    assert gone["model"] == "own" and gone["value"] == "0.8"


def test_heads_with_a_role_are_not_derived() -> None:
    tables = eleven()
    tables["scores"].loc[0, "positional"] = "0.93"
    with pytest.raises(UserError, match="made anew"):
        study.derived(study.ROLES, tables, tables["scores"])
    counts = pd.DataFrame({"role": ["positional"], "high": ["1"]})
    with pytest.raises(UserError, match="made anew"):
        study.derived("15_three_languages", {"counts": counts}, tables["scores"])


@pytest.mark.parametrize("name", study.HOW)
def test_published_tables_say_what_was_done_with_them(name: str) -> None:
    """A study that is published anew has no such note, and columns of its own."""
    found = published(name)
    if "derived" not in found.run:
        pytest.skip("published anew")
    assert found.run["derived"]["how"] == study.HOW[name]
    assert "rewritten without a new run" in found.provenance
    for table in found.tables.values():
        assert not {"positional_low", "largest_positional", "mean_positional"} & set(table.columns)


def test_nothing_is_rewritten_twice(tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(paths.RESULTS / "laptop", results / "laptop")
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert study.derive("laptop", results) == []
    assert before == {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
