"""Writing a page's tables and reading them again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headbook import paths
from headbook.chapters.chapter import Tables
from headbook.chapters.results import add, extend, largest_published, machine, published, write
from headbook.old_results import old_table, studies
from headbook.tables import as_text, folder
from headbook.types import UserError

STUDY = "11_confidence_and_roles"
MADE_BY = {"config": {"seed": 3}, "runs": [{"seconds": 100.0, "commit": "c1"}, {"seconds": 80.0}]}


@pytest.fixture
def tables() -> Tables:
    scores = pd.DataFrame(
        {"model": ["a", "b"], "layer": [1, 2], "offset": ["-1", "+1"], "update": ["0", "0"],
         "value": [1 / 3, float("nan")], "low": [-1234.5678, 1e-9]}
    )  # fmt: skip
    claims = pd.DataFrame({"claim": ["x", "y"], "seed": [0, ""], "value": [0.5, 2.0]})
    return {"scores": scores, "claims": claims}


def test_what_was_published_is_read_again(tables: Tables, tmp_path: Path):
    where = write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    assert where == folder(STUDY, tmp_path) == tmp_path / "11"
    again = published(STUDY, "smoke", tmp_path)
    assert (again.study, again.profile) == (STUDY, "smoke")
    assert set(again.tables) == {"scores", "claims"}
    scores = again.tables["scores"]
    np.testing.assert_allclose(scores["value"], [1 / 3, np.nan], rtol=5e-5)
    np.testing.assert_allclose(scores["low"], [-1234.5678, 1e-9], rtol=5e-5)
    assert scores["layer"].tolist() == [1, 2]
    assert list(scores.columns) == list(tables["scores"].columns)


def test_numbers_are_kept_to_five_digits(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    assert lines(tmp_path)[1] == "a,1,-1,0,0.33333,-1234.6"


def test_text_that_looks_like_a_number_stays_text(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    again = published(STUDY, "smoke", tmp_path).tables
    assert again["scores"]["offset"].tolist() == ["-1", "+1"]
    assert again["scores"].query("update == '0'").shape[0] == 2


def test_an_empty_seed_stays_empty_and_nought_stays_nought(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    seeds = published(STUDY, "smoke", tmp_path).tables["claims"]["seed"]
    assert seeds.fillna("").tolist() == ["0", ""]


def test_an_empty_table_keeps_its_columns(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", {"scores": tables["scores"].iloc[:0]}, {}, tmp_path)
    again = published(STUDY, "smoke", tmp_path).tables["scores"]
    assert again.empty and list(again.columns) == list(tables["scores"].columns)


def test_the_tables_of_an_earlier_publication_go(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables | {"old": tables["scores"]}, MADE_BY, tmp_path)
    write(STUDY, "smoke", {"scores": tables["scores"].iloc[:1]}, MADE_BY, tmp_path)
    again = published(STUDY, "smoke", tmp_path)
    assert set(again.tables) == {"scores"} and len(again.tables["scores"]) == 1


def test_profiles_do_not_touch_each_other(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    write(STUDY, "quick", {"scores": tables["scores"]}, MADE_BY, tmp_path)
    assert set(published(STUDY, "smoke", tmp_path).tables) == {"scores", "claims"}


def test_the_record_says_what_made_them(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    run = published(STUDY, "smoke", tmp_path).run
    assert run["study"] == STUDY
    assert run["versions"]["torch"] and run["hardware"]["cores"] >= 1
    assert run["commit"] and pd.Timestamp(run["date"]).tzinfo is not None
    assert {name: run[name] for name in MADE_BY} == MADE_BY


def test_a_record_has_a_line_per_entry_and_per_run(tables: Tables, tmp_path: Path):
    text = (write(STUDY, "smoke", tables, MADE_BY, tmp_path) / "run.json").read_text()
    found = [line.strip() for line in text.splitlines()]
    assert '{"seconds": 100.0, "commit": "c1"},' in found and '{"seconds": 80.0}' in found
    assert '"config": {"seed": 3},' in found
    odd = {"quote": '"\n', "empty": [], "names": ["a", "é"], "runs": [{"masks": [[], [1]]}, {}]}
    assert json.loads(as_text(odd)) == odd and list(json.loads(as_text(odd))) == list(odd)


def test_a_publication_that_breaks_off_leaves_the_last_one(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before = published(STUDY, "smoke", tmp_path)
    monkeypatch.setattr("headbook.runs.record.now", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(STUDY, "smoke", {"scores": tables["scores"].iloc[:1]}, {}, tmp_path)
    again = published(STUDY, "smoke", tmp_path)
    assert again.run == before.run
    for name, table in before.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    monkeypatch.undo()
    write(STUDY, "smoke", {"scores": tables["scores"]}, {}, tmp_path)
    assert set(published(STUDY, "smoke", tmp_path).tables) == {"scores"}
    assert {each.name for each in (tmp_path / "11").iterdir()} == {"run.json", "scores.csv"}


def test_what_was_never_published_names_the_command(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, {}, tmp_path)
    with pytest.raises(UserError, match=f"`headbook publish {STUDY} --profile laptop`"):
        published(STUDY, root=tmp_path)


def test_the_largest_published_profile_is_found(tables: Tables, tmp_path: Path):
    assert largest_published(STUDY, tmp_path) is None
    for profile in ("laptop", "smoke", "full"):
        write(STUDY, profile, tables, {}, tmp_path)
    found = largest_published(STUDY, tmp_path)
    assert (found.profile, found.study) == ("full", STUDY)


@pytest.mark.parametrize(
    ("hardware", "said"),
    [
        ({"processor": "P", "cores": 2, "gpu": None, "threads": 1}, "2 cores, P"),
        ({"processor": "P", "cores": 16, "gpu": "H200"}, "H200"),
        ({}, "unknown cores, processor unknown"),
    ],
)
def test_a_machine_is_named_by_what_computes(hardware: dict, said: str):
    assert machine(hardware) == said


def lines(root: Path, table: str = "scores") -> list[str]:
    return old_table(STUDY, "smoke", table, root).to_csv(index=False).splitlines()


def rows_of(model: str, tables: Tables, value: float = 0.25) -> Tables:
    return {"scores": tables["scores"].iloc[:1].assign(model=model, value=value)}


def test_an_added_model_leaves_the_other_rows_to_the_letter(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before, claims = lines(tmp_path), lines(tmp_path, "claims")
    stranger = rows_of("other", tables)["scores"]
    new = {
        "scores": pd.concat([*rows_of("c", tables).values(), stranger])[
            tables["scores"].columns[::-1]
        ]
    }
    add(STUDY, "smoke", new, "c", {"parameters": {}}, tmp_path)
    assert lines(tmp_path) == [*before, "c,1,-1,0,0.25,-1234.6"]
    assert lines(tmp_path, "claims") == claims
    run = published(STUDY, "smoke", tmp_path).run
    (added,) = run["added"]
    assert added["model"] == "c" and added["commit"] and added["hardware"] and added["date"]
    assert run["config"] == MADE_BY["config"] and run["text_columns"]["scores"]


def test_of_a_table_without_models_the_rows_of_the_corpus_are_added(tmp_path: Path):
    def made(model: str, corpus: str, pairs: int) -> Tables:
        return {"scores": pd.DataFrame({"model": [model], "corpus": [corpus]}),
                "splits": pd.DataFrame({"corpus": [corpus], "pairs": [pairs]}),
                "machine": pd.DataFrame({"cores": [pairs]})}  # fmt: skip

    write(STUDY, "smoke", made("a", "x", 1), MADE_BY, tmp_path)
    for pairs in (2, 3):
        add(STUDY, "smoke", made("b", "y", pairs), "b", {}, tmp_path)
    assert lines(tmp_path, "splits") == ["corpus,pairs", "x,1", "y,3"]
    assert lines(tmp_path, "machine") == ["cores", "1"]


def test_a_table_that_named_no_model_names_the_added_one(tmp_path: Path):
    write(STUDY, "smoke", {"machine": pd.DataFrame({"cores": [1]})}, MADE_BY, tmp_path)
    for cores in (2, 3):
        new = {"machine": pd.DataFrame({"cores": [cores], "model": ["b"]})}
        add(STUDY, "smoke", new, "b", {}, tmp_path)
    assert lines(tmp_path, "machine") == ["cores,model", "1,", "3,b"]
    kept = published(STUDY, "smoke", tmp_path).tables["machine"]
    assert kept["cores"].tolist() == [1, 3] and kept["model"].isna().tolist() == [True, False]


def test_a_model_added_twice_is_replaced(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before = lines(tmp_path)
    for model, value in (("c", 0.25), ("d", 0.5), ("c", 0.75)):
        add(STUDY, "smoke", rows_of(model, tables, value), model, {"value": value}, tmp_path)
    assert lines(tmp_path) == [*before, "d,1,-1,0,0.5,-1234.6", "c,1,-1,0,0.75,-1234.6"]
    added = published(STUDY, "smoke", tmp_path).run["added"]
    assert [(each["model"], each["value"]) for each in added] == [("d", 0.5), ("c", 0.75)]


def test_parts_of_a_model_come_along_and_names_that_begin_alike_do_not(
    tables: Tables, tmp_path: Path
):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before = lines(tmp_path)
    for value in (0.25, 0.75):
        parts = [rows_of(name, tables, value)["scores"] for name in ("c, cross", "cc")]
        add(STUDY, "smoke", {"scores": pd.concat(parts)}, "c", {}, tmp_path)
    assert lines(tmp_path) == [*before, '"c, cross",1,-1,0,0.75,-1234.6']


def test_rows_of_further_parameters_leave_the_others_to_the_letter(tables: Tables, tmp_path: Path):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before, claims = lines(tmp_path), lines(tmp_path, "claims")
    first = rows_of("a", tables, 0.75)["scores"].iloc[:1]
    claim = pd.DataFrame({"claim": ["x", "z"], "seed": [1, 1], "value": [0.25, 0.5]})
    new = {"scores": first, "claims": claim, "lists": pd.DataFrame({"kind": ["7"]})}
    for value in (3, 4, 3):
        extend(STUDY, "smoke", new, ("model", "layer"), {"lists": value}, {}, tmp_path)
    # the published row of model a and layer 1 is replaced, b's and all claims of other seeds stay,
    # and a row that is published to the letter stays in its place
    extend(
        STUDY, "smoke", {"scores": tables["scores"].iloc[1:]}, ("model",), {"c": 1}, {}, tmp_path
    )
    assert lines(tmp_path) == [before[0], before[2], "a,1,-1,0,0.75,-1234.6"]
    assert lines(tmp_path, "claims") == [*claims, "x,1,0.25", "z,1,0.5"]
    again = published(STUDY, "smoke", tmp_path)
    assert again.tables["lists"]["kind"].tolist() == ["7"]
    assert [each["given"] for each in again.run["added"]] == [{"lists": 4}, {"lists": 3}, {"c": 1}]
    with pytest.raises(UserError, match="column 'value' in 'scores'"):
        other = {"scores": first.drop(columns="value")}
        extend(STUDY, "smoke", other, ("model",), {"lists": 3}, {}, tmp_path)


@pytest.mark.parametrize("by_model", [True, False])
def test_a_further_column_is_empty_in_the_rows_that_stay(
    tables: Tables, tmp_path: Path, by_model: bool
):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    new = {"scores": rows_of("c", tables)["scores"].assign(offset="+1", more=2.5)}
    if by_model:
        add(STUDY, "smoke", new, "c", {}, tmp_path)
    else:
        extend(STUDY, "smoke", new, ("model",), {"d": 1}, {}, tmp_path)
    again = published(STUDY, "smoke", tmp_path).tables["scores"].set_index("model")
    assert again.loc["c", "more"] == 2.5 and again.loc["c", "offset"] == "+1"
    assert again.drop("c")["more"].isna().all()


def test_rows_of_superseded_claims_stay_with_what_made_them(tables: Tables, tmp_path: Path):
    old = pd.DataFrame({"claim": ["old", "new"], "model": "m", "value": [0.25, 0.1]})
    write(STUDY, "smoke", {"claims": old}, MADE_BY, tmp_path)
    first = published(STUDY, "smoke", tmp_path).run
    for value in (0.5, 0.75):
        new = pd.DataFrame({"claim": ["new"], "model": "m", "value": value, "closed": "none"})
        write(STUDY, "smoke", {"claims": new}, MADE_BY, tmp_path, stay={"old", "unknown"})
        assert lines(tmp_path, "claims") == ["claim,model,value,closed", f"new,m,{value},none",
                                             "old,m,0.25,"]  # fmt: skip
    (kept,) = published(STUDY, "smoke", tmp_path).run["added"]
    assert kept == {"claims": ["old"], **{name: first[name] for name in
                                          ("commit", "versions", "hardware", "date")}}  # fmt: skip


def test_a_measurement_of_several_rows_is_replaced_as_a_whole(tables: Tables, tmp_path: Path):
    """Of one key, a row that came out the same is not lost with those that did not."""
    twice = pd.concat([rows_of("a", tables)["scores"]] * 2, ignore_index=True).assign(layer=[1, 2])
    write(STUDY, "smoke", {"scores": twice, "none": pd.DataFrame({"n": [1, 2]})}, MADE_BY, tmp_path)
    before = lines(tmp_path)
    new = {"scores": twice.assign(value=[twice["value"][0], 0.75]),
           "none": pd.DataFrame({"n": [1, 3]})}  # fmt: skip
    extend(STUDY, "smoke", new, ("model",), {"lists": 3}, {}, tmp_path)
    assert lines(tmp_path)[:2] == before[:2] and lines(tmp_path)[2] == "a,2,-1,0,0.75,-1234.6"
    assert lines(tmp_path, "none") == ["n", "1", "3"]


def test_what_the_published_tables_lack_is_refused_and_changes_nothing(
    tables: Tables, tmp_path: Path
):
    write(STUDY, "smoke", tables, MADE_BY, tmp_path)
    before = lines(tmp_path)
    other = {"other": rows_of("c", tables)["scores"]}
    with pytest.raises(UserError, match=f"no table 'other' is published of {STUDY}"):
        add(STUDY, "smoke", other, "c", {}, tmp_path)
    assert lines(tmp_path) == before


def test_every_published_table_of_the_book_could_take_a_model(tmp_path: Path):
    """Nothing of it is written otherwise than it was: no number, quote or empty cell."""
    root = tmp_path / "results"
    shutil.copytree(paths.RESULTS, root)
    for study in studies("released", root):
        where = folder(study, root)
        before = {path.name: path.read_bytes() for path in where.glob("*.csv")}
        found = published(study, "released", root).tables.items()
        add(study, "released", {name: table.iloc[:0] for name, table in found}, "nobody", {}, root)
        assert {path.name: path.read_bytes() for path in where.glob("*.csv")} == before
