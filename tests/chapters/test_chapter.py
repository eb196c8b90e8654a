"""A page declares itself: it is found, its parameters are checked, live and published compared."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from published import plant

from headbook.chapters import chapter as declared
from headbook.chapters import results
from headbook.chapters.chapter import Chapter, chapters, find, given_in, module_of
from headbook.chapters.comparing import beside_published, compare
from headbook.chapters.page import Page, add_model, open_page, publish_chapter
from headbook.runs.store import Store
from headbook.types import UserError


@pytest.fixture(autouse=True)
def _no_memory_of_other_homes() -> None:
    declared._modules.cache_clear()


@pytest.fixture
def toy(home: str) -> Chapter:
    return chapters(home)[0]


def opened(home: str, root: Path, given: Mapping[str, object] | None = None) -> Page:
    return open_page(98, given or {}, Store(root / "runs"), root, home)


def test_the_package_is_searched_for_chapters(home: str) -> None:
    (found,) = chapters(home)
    assert (found.name, found.part, found.number) == ("98_counting", "toys", 98)
    assert find("98_counting", home) == find(98, home) == found
    assert find("97_counting", home) is None
    assert find("16_relevance", home) is None


def test_every_chapter_of_the_book_declares_itself_and_reads_its_defaults() -> None:
    for each in chapters():
        assert each.title.endswith("?")
        assert each.parameters_from({}) == each.parameters()
        assert find(each.number) == find(each.name) == each


def test_only_the_page_itself_is_imported(home: str, tmp_path: Path) -> None:
    (tmp_path / "toybook" / "toys" / "broken.py").write_text("NUMBER = 97\nraise RuntimeError\n")
    assert find(98, home).name == "98_counting"
    assert module_of("97_broken", home) == "toybook.toys.broken"


def test_a_module_that_declares_too_little_is_named(home: str, tmp_path: Path) -> None:
    (tmp_path / "toybook" / "toys" / "bare.py").write_text("NUMBER = 97\n")
    with pytest.raises(UserError, match=r"toybook\.toys\.bare does not declare TITLE"):
        chapters(home)


def test_two_chapters_of_one_number_are_refused(home: str, tmp_path: Path) -> None:
    folder = tmp_path / "toybook" / "toys"
    (folder / "again.py").write_text((folder / "counting.py").read_text())
    with pytest.raises(UserError, match="two chapters are number 98"):
        chapters(home)


def test_an_unknown_parameter_is_refused_in_one_line(toy: Chapter) -> None:
    with pytest.raises(UserError, match=r"did you mean 'models'; it knows models, scale") as fault:
        toy.parameters_from({"modles": ["a"]})
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("given", "models"),
    [(["b"], ("b",)), ('["a", "b"]', ("a", "b")), ("a", ("a",))],
)
def test_lists_come_as_papermill_gives_them(
    given: object, models: tuple[str, ...], toy: Chapter
) -> None:
    assert toy.parameters_from({"models": given}).models == models


@pytest.mark.parametrize(
    "given", [{"models": 3}, {"models": "[a"}, {"models": [1]}, {"models": []}, {"models": "[]"},
              {"sentences": "x"}, {"sentences": True}, {"sentences": -1}]
)  # fmt: skip
def test_a_parameter_of_the_wrong_kind_is_refused(given: dict, toy: Chapter) -> None:
    with pytest.raises(UserError, match=next(iter(given))) as fault:
        toy.parameters_from(given)
    assert "\n" not in str(fault.value)


def test_names_of_a_notebook_that_are_no_parameters_are_left_out() -> None:
    assert given_in({"_x": 1, "In": [], "json": json, "find": find, "models": "a"}) == {
        "models": "a"
    }


def published(toy: Chapter, root: Path, **parameters: object) -> Path:
    return publish_chapter(toy, parameters, root)


def test_what_is_measured_again_equals_what_is_published(
    toy: Chapter, home: str, tmp_path: Path
) -> None:
    published(toy, tmp_path)
    page = opened(home, tmp_path)
    assert page.comparison.equal
    assert page.comparison.cells == 12
    assert page.facts["top"] == "2.098"


def test_a_planted_difference_turns_the_comparison_red(
    toy: Chapter, home: str, tmp_path: Path
) -> None:
    published(toy, tmp_path)
    known = results.published(toy.name, "released", tmp_path).tables["released"]
    plant(tmp_path, "released", toy.name, {"released": known.replace(1.098, 1.198)})
    page = opened(home, tmp_path)
    assert not page.comparison.equal
    assert "released, b: value is 1.098 now, 1.198 published" in str(page.comparison)
    assert "not as published" not in str(page.comparison)


def test_a_table_cut_in_half_opens_no_page(toy: Chapter, home: str, tmp_path: Path) -> None:
    file = published(toy, tmp_path) / "released.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    with pytest.raises(UserError, match=r"98/released\.csv"):
        opened(home, tmp_path)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (pd.DataFrame({"model": ["a"], "head": [2]}), "head is 1 now, 2 published"),
        (pd.DataFrame({"model": ["a", "a"], "head": [1, 1]}), "1 rows now, 2 published"),
        (pd.DataFrame({"model": ["a"], "other": [1]}), "no column head"),
        (pd.DataFrame({"model": ["a"], "head": [float("nan")]}), "head is 1 now, nan published"),
    ],
)
def test_every_kind_of_difference_is_seen(planted: pd.DataFrame, said: str) -> None:
    live = {"t": pd.DataFrame({"model": ["a"], "head": [1]})}
    found = compare(live, {"t": planted}, ("model",))
    assert said in found.differing[0]


def test_times_are_not_compared() -> None:
    live, known = (
        {"t": pd.DataFrame({"model": ["a"], "value": [0.5], "seconds": [taken]})}
        for taken in (2.0, 9.0)
    )
    found = compare(live, known, ("model",))
    assert found.equal and found.cells == 2


def test_measurements_that_nobody_published_are_not_compared_but_shown(
    toy: Chapter, home: str, tmp_path: Path
) -> None:
    published(toy, tmp_path)
    page = opened(home, tmp_path, {"models": ["b", "z"]})
    assert page.comparison.equal
    assert list(page.tables["released"]["model"].unique()) == ["a", "b", "z"]
    assert list(page.published["released"]["model"].unique()) == ["a", "b"]
    assert page.facts["top"] == "2.098"


def test_a_guard_that_fails_names_its_sentence(toy: Chapter, home: str, tmp_path: Path) -> None:
    page = opened(home, tmp_path)
    page.expects("toys count", page.published["released"]["value"].min() > 0)
    with pytest.raises(UserError, match="page 98 says that toys sleep"):
        page.expects("toys sleep", page.published["released"]["value"].min() > 5)


def test_a_page_says_how_to_reproduce_it(toy: Chapter, home: str, tmp_path: Path) -> None:
    published(toy, tmp_path)
    text = opened(home, tmp_path).reproduce()._repr_html_()
    assert "headbook publish 98 --profile released" in text
    assert "equal (12 values)" in text


def test_a_model_is_added_to_a_published_page(
    toy: Chapter, home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(toy, tmp_path)
    weights = {"updates": 512, "planned": 6000, "sha256": "0"}
    monkeypatch.setattr("headbook.chapters.page.of_the_book", {"c": weights}.get)
    add_model(toy, {"models": ["a", "b"]}, "c", tmp_path)
    page = opened(home, tmp_path, {"models": ["a", "c"]})
    assert page.comparison.equal and page.comparison.cells == 12
    assert page.published["released"]["model"].tolist() == ["a", "a", "b", "b", "c", "c"]
    assert page.facts["top"] == "2.099"
    text = page.reproduce()._repr_html_()
    assert (
        "Rows of c, weights after 512 of 6,000 updates: <code>headbook publish 98 --model c<"
        in text
    )
    add_model(toy, {}, "b", tmp_path)
    assert "Rows of b: <code>" in opened(home, tmp_path).reproduce()._repr_html_()
    add_model(toy, {"scale": 2.0}, "b", tmp_path)
    text = opened(home, tmp_path).reproduce()._repr_html_()
    assert "Rows of b: <code>headbook publish 98 --model b --given 'scale=2.0'<" in text


def test_a_model_is_added_only_to_published_pages(toy: Chapter, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no published results at profile released"):
        add_model(toy, {}, "c", tmp_path)


def test_an_unknown_number_is_named(home: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no chapter is number 7"):
        open_page(7, {}, Store(tmp_path), tmp_path, home)


def test_what_was_measured_with_other_settings_takes_its_published_rows_place() -> None:
    keys = ("model", "text", "sentences")
    known = pd.DataFrame({"model": ["a", "a", "b"], "text": ["x", "y", "x"], "sentences": [9, 9, 9],
                          "value": [1, 2, 3]})  # fmt: skip
    live = pd.DataFrame({"model": ["a", "c"], "text": ["x", "x"], "sentences": [4, 4],
                         "value": [5, 6]})  # fmt: skip
    found = beside_published(live, known, keys)
    rows = sorted(found[[*keys, "value"]].itertuples(index=False, name=None))
    assert rows == [("a", "x", 4, 5), ("a", "y", 9, 2), ("b", "x", 9, 3), ("c", "x", 4, 6)]
    # what is published already stays as it is, and a table without subjects is replaced as a whole
    assert beside_published(known.head(1), known, keys) is known
    whole = beside_published(live[["sentences"]], known[["sentences"]], ("sentences",))
    assert whole["sentences"].tolist() == [4, 4]
