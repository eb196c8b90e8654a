"""Tables of results: made, shown, compared with published ones, and published without loss."""

import contextlib
import json
import multiprocessing
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusing import refused, refuses

import headbook as hb
from headbook import paths, results, tables
from headbook.runs.store import Store

TABLE = "13/best"


def frame(model: str = "a", value: float = 0.5, **more: object) -> pd.DataFrame:
    """Two questions about one model, with replicates that spread by a tenth."""
    labels = {"model": model, "sentences": 40, "question": ["verb → object", "object → verb"]}
    spread = np.linspace(-0.1, 0.1, 41)
    replicates = np.array([[value, value / 2], *(value + each * np.ones(2) for each in spread)])
    return hb.table(labels, value=replicates, offset=[0.25, 0.125], **more)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def publish(made: pd.DataFrame, name: str = TABLE, **parameters: object) -> pd.DataFrame:
    """As under `headbook publish 13`."""
    with paths.with_variables(paths.variables() | paths.to_publish("13", parameters)):
        return hb.publish(made, name)


def lines(root: Path, table: str = "best") -> list[str]:
    return (root / "13" / f"{table}.csv").read_text("utf-8").splitlines()


def test_replicates_become_a_value_with_its_interval() -> None:
    """By hand: of 0, 1, …, 100 the quantiles .025 and .975 are 2.5 and 97.5."""
    replicates = np.vstack([[7.0, 8.0], np.stack([np.arange(101.0), np.full(101, np.nan)], 1)])
    made = hb.table({"text": "ewt", "n": [1, 2]}, x=replicates, head=["L1H1", "L2H2"])
    assert list(made) == ["text", "n", "x", "x_low", "x_high", "head"]
    assert made["text"].tolist() == ["ewt", "ewt"] and made["x"].tolist() == [7, 8]
    assert (made["x_low"][0], made["x_high"][0]) == (2.5, 97.5)
    assert made[["x_low", "x_high"]].iloc[1].isna().all()


def test_a_table_for_reading_formats_numbers_and_leaves_out_what_all_rows_share() -> None:
    """And its text is escaped."""
    made = frame().replace("verb → object", "<b>&")
    html = hb.show(made, {"value": "%ci", "offset": ".1%"})._repr_html_()
    assert re.findall(r'align: (\w+)">(.*?)</', html) == [
        ("left", "question"), ("right", "value"), ("right", "offset"),
        ("left", "&lt;b&gt;&amp;"), ("right", "50\u00a0% [40, 60]"), ("right", "25.0\u00a0%"),
        ("left", "object → verb"), ("right", "25\u00a0% [40, 60]"), ("right", "12.5\u00a0%"),
    ]  # fmt: skip


def test_columns_that_do_not_fit_are_refused() -> None:
    refuses(lambda: hb.table({"n": [1, 2]}, x=[1.0] * 3))
    refuses(lambda: hb.show(frame(), {"valeu": "%"}))
    refuses(lambda: hb.show(frame(), {"value": "percent"}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"value": [0.5003, 0.25]}, "1 differ: 13/best, a; 40; verb → object: value is 0.5003 now"),
        ({"value": [0.50001, 0.25]}, "2 of 2 rows as published"),
        ({"offset": [np.nan, 0.125]}, "offset is empty now"),
        ({"bleu": 37.0}, "bleu is 37.0 now, empty published"),
        ({"best": ["L6H5", "L6H3"]}, "best is L6H3 now, L6H2 published"),
        ({"sentences": 20}, "nothing to compare"),
    ],
)
def test_rows_of_the_same_keys_are_compared(
    changed: dict, said: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Less than a point, less than rounding, a lost number, a column of its own, another head."""
    made = frame(best=["L6H5", "L6H2"])
    publish(made)
    hb.publish(made.assign(**changed), TABLE)
    line = capsys.readouterr().out.splitlines()[-1]
    assert said in line and ("differ" in line) is (" now" in said)


def test_keys_that_do_not_fit_are_refused(root: Path) -> None:
    publish(frame())
    fewer = hb.table({"model": "a", "question": ["verb → object"]}, value=[0.5])
    for made, said in ((pd.concat([frame(), frame()]), "two rows"), (fewer, "keys")):
        with refused(said):
            hb.publish(made, TABLE)
    with refused("page 13"):
        publish(frame(), "14/best")


def test_rows_of_other_keys_stay_to_the_letter(root: Path) -> None:
    publish(frame("a", 1 / 3), first=1)
    before = lines(root)
    publish(frame("b", 2 / 3), second=1)
    assert lines(root)[:3] == before and len(lines(root)) == 5
    publish(frame("a", 0.75, head=["L1H1", "L1H2"]), third=1)
    assert "0.75" in lines(root)[1] and lines(root)[3].startswith("b,40,")
    assert results.published(13, "best")["head"].tolist() == ["L1H1", "L1H2", "", ""]
    made = tables.entries(13)["best"]["made"]
    assert [each["parameters"] for each in made] == [{"first": 1}, {"second": 1}, {"third": 1}]
    assert all(each["commit"] and each["date"] and each["hardware"] for each in made)


def test_what_is_published_again_in_another_order_moves_no_column(root: Path) -> None:
    publish(frame("a", 1 / 3))
    before, again = lines(root), frame("a", 1 / 3)
    hurried = again[[*again][::-1]].copy()
    hurried.attrs["keys"] = again.attrs["keys"]
    publish(hurried)
    assert lines(root) == before


def test_a_record_has_a_line_for_each_run_and_says_the_same(root: Path) -> None:
    publish(frame("a"), first=1)
    publish(frame("b"), second=1)
    text = (root / "13" / "run.json").read_text("utf-8")
    (entry,) = json.loads(text)["tables"].values()
    assert [json.loads(line.strip(" ,")) for line in text.splitlines() if '"commit"' in line] == [
        *entry["made"]
    ]


def test_types_and_digits_are_kept(root: Path) -> None:
    sign = hb.table({"offset": ["+1", "-1"], "name": ["None", "NA"]}, share=[1 / 3, np.nan],
                    count=[123_456.0, np.nan], heads=[3, 4])  # fmt: skip
    publish(sign)
    found = results.published(13, "best")
    assert found["offset"].tolist() == ["+1", "-1"] and found["name"].tolist() == ["None", "NA"]
    assert found["share"][0] == 0.33333 and np.isnan(found["share"][1])
    assert found["count"][0] == 123_456 and found["heads"].tolist() == [3, 4]


@pytest.mark.parametrize(("old", "new"), [(r"\n.*\Z", "\n"), ("0.5,", "0.51,"), ("\n", "\r\n")])
def test_an_edited_or_truncated_table_is_refused(old: str, new: str, root: Path) -> None:
    publish(frame())
    assert tables.check() == 2
    file = root / "13" / "best.csv"
    file.write_bytes(re.sub(old, new, file.read_text("utf-8"), flags=re.S).encode())
    for read in (lambda: hb.publish(frame(), TABLE), tables.check):
        with refused(r"13/best\.csv is not the table"):
            read()
    file.rename(file.with_name("other.csv"))
    with refused("missing"):
        results.published(13, "best")
    with refused(r"other\.csv is not in its run\.json"):
        tables.check()


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("step", range(4))
def test_a_kill_at_any_step_leaves_the_old_table_or_the_new(
    step: int, there: bool, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted kill comes before the n-th renaming, of the record or of a table; the table was
    published before, or not."""
    if there:
        publish(frame("a"))
    old, done = lines(root) if there else [], []

    def rename(source: Path, target: Path) -> None:
        if len(done) == step:
            raise KeyboardInterrupt
        done.append(target)
        os.rename(source, target)

    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt):
        patched.setattr(tables.os, "replace", rename)
        publish(frame("b"))
    assert len(done) == min(step, 3)
    if step < 2 and not there:
        with refused("not published"):
            results.published(13, "best")
    else:
        assert len(results.published(13, "best")) == 2 * there + 2 * (step >= 2)
        assert lines(root)[: len(old)] == old
        tables.check()
    publish(frame("c"))
    assert set(results.published(13, "best")["model"]) >= {"c"} | ({"a"} if there else set())


def _publish_one(number: int) -> None:
    publish(frame(f"m{number}"), n=number)


def test_two_processes_that_publish_at_once_lose_nothing(root: Path) -> None:
    with multiprocessing.get_context("fork").Pool(2) as both:
        both.map(_publish_one, range(10), chunksize=5)
    found = results.published(13, "best")
    assert set(found["model"]) == {f"m{n}" for n in range(10)} and len(found) == 20
    assert len(tables.entries(13)["best"]["made"]) == 10


CALLS: list[float] = []


def measured(scale: float) -> pd.DataFrame:
    CALLS.append(scale)
    return pd.DataFrame({"text": ["+1", ""], "x": [scale / 3, np.nan]})


def arrays(size: int) -> dict[str, np.ndarray]:
    return {"a": np.arange(size, dtype="float32"), "b": np.eye(2, dtype=bool)}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    CALLS.clear()
    return Store.default()


def test_a_result_is_computed_once_per_setting_and_source(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hb.cached(measured, scale=1.0)
    again = hb.cached(measured, scale=1.0)
    pd.testing.assert_frame_equal(first, again)
    pd.testing.assert_frame_equal(first, measured(1.0))
    hb.cached(measured, scale=2.0)
    monkeypatch.setattr(results.inspect, "getsource", lambda function: "another source")
    hb.cached(measured, scale=1.0)
    assert CALLS == [1.0, 1.0, 2.0, 1.0]


def test_arrays_keep_shape_type_and_bits(store: Store) -> None:
    for found in (hb.cached(arrays, size=3), hb.cached(arrays, size=3)):
        np.testing.assert_equal(found, arrays(3))
        assert found["a"].dtype == "float32"


@pytest.mark.parametrize("given", [(arrays, {"size": 3}), (measured, {"scale": 1.0})])
def test_a_damaged_result_is_refused(store: Store, given: tuple) -> None:
    function, settings = given
    hb.cached(function, **settings)
    (record,) = store.root.rglob("run.json")
    (file,) = set(record.parent.iterdir()) - {record}
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    for damage in (lambda: file.write_bytes(data), file.unlink):
        damage()
        with refused("delete"):
            hb.cached(function, **settings)
