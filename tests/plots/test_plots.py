"""Figures are inline SVG: no fixed size, no fixed ink, ids of their own, a description."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pandas as pd
import pytest
from refusing import refused

import headbook as hb
from headbook import plots
from headbook.plots.svg import INK, Drawing

HEADS = pd.DataFrame(
    [("encoder", layer, head, (layer + head) / 20, "r") for layer in (1, 2) for head in (1, 2, 3)],
    columns=["kind", "layer", "head", "confidence", "letter"],
)
ROWS = pd.DataFrame(
    [(name, model, 0.5, 0.4, 0.6, 0.3) for name in ("a → b", "b → a") for model in ("x", "y")],
    columns=["relation", "model", "value", "low", "high", "paper"],
)
LINES = pd.DataFrame({"update": [0, 10, 100], "value": [1.0, 2, 3], "low": [0.5, 1, 2],
                      "high": [2.0, 3, 4]})  # fmt: skip
FORMS: dict[str, Callable[[], Drawing]] = {
    "heads": lambda: plots.heads(HEADS, "confidence", label="letter"),
    "intervals": lambda: plots.intervals(ROWS, "relation", hue="model", marks={"paper": "paper"}),
    "curves": lambda: plots.curves(LINES, "update", log=True, marks=LINES.head(1)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_figure_is_as_wide_as_its_column_in_the_ink_of_the_page(form: str) -> None:
    svg = FORMS[form]().svg()
    root = ET.fromstring(svg)
    assert root.attrib["width"] == "100%" and "height" not in root.attrib
    assert root.attrib["viewBox"].startswith("0 0 440") and root.attrib["role"] == "img"
    assert root[0].text == root.attrib["aria-label"] and len(root[0].text) > 10
    assert not re.search(rf"<style|{INK}|(fill|stroke): ?(#000000|black)\b", svg)
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert "fill" in text.attrib.get("style", ""), "text without a fill is black"


def test_ids_are_the_figures_own_and_the_same_figure_is_the_same_text() -> None:
    one, two = FORMS["curves"]().svg(), FORMS["intervals"]().svg()
    ids, others = (set(re.findall(r'\bid="([^"]+)"', each)) for each in (one, two))
    assert ids and not ids & others and one == FORMS["curves"]().svg()
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', one)) <= ids


def test_a_description_is_text() -> None:
    html = plots.curves(LINES, "update", alt='<b> "x"')._repr_html_()
    assert "<b>" not in html
    assert ET.fromstring(html).find(".//*[@role='img']").attrib["aria-label"] == '<b> "x"'


def test_a_map_has_every_head_at_its_place_and_a_panel_per_kind() -> None:
    both = pd.concat([HEADS, HEADS.assign(kind="cross")]).sample(frac=1, random_state=0)
    first, other, _ = plots.heads(both, "confidence").figure.axes
    assert {axis.get_title("left") for axis in (first, other)} == {"encoder heads", "cross heads"}
    assert first.collections[0].get_array().tolist() == [[0.1, 0.15, 0.2], [0.15, 0.2, 0.25]]
    assert "layer 2 head 3" in plots.heads(HEADS, "confidence").alt
    assert "no values" in plots.heads(HEADS.assign(confidence=float("nan")), "confidence").alt


def test_a_table_that_cannot_be_drawn_is_refused() -> None:
    with refused("no column layer"):
        plots.heads(HEADS.drop(columns="layer"), "confidence")
    with refused("several rows"):
        plots.heads(pd.concat([HEADS, HEADS]), "confidence")


def test_an_estimate_stands_in_its_row_beside_the_papers() -> None:
    axis = plots.intervals(ROWS, "relation", hue="model", marks={"paper": "paper"}).figure.axes[0]
    found = {mark: [(x, round(y)) for line in axis.lines if line.get_marker() == mark
                    for x, y in zip(*line.get_data(), strict=True)] for mark in "osD"}  # fmt: skip
    dots, diamonds = [(0.5, 0), (0.5, 1)], [(0.3, 0), (0.3, 1)]
    assert found == {"o": dots, "s": dots, "D": 2 * diamonds}
    ends = [segment[:, 0].tolist() for segment in axis.collections[0].get_segments()]
    assert ends == [[0.4, 0.6]] * 2


def test_a_line_per_hue_has_its_band_and_the_papers_values_in_its_colour() -> None:
    rows = pd.DataFrame(
        {"x": [1, 0, 0, 1], "value": range(4), "kind": ["mine"] * 2 + ["theirs"] * 2}
    )
    rows = rows.assign(low=rows["value"] - 1, high=rows["value"] + 2)
    marks = rows.iloc[[2, 0]]  # in another order than the lines
    axis = plots.curves(rows, "x", hue="kind", marks=marks).figure.axes[0]
    first, second, *diamonds, _ = axis.lines
    found = [line.get_ydata().tolist() for line in (first, second, *diamonds)]
    assert found == [[1, 0], [2, 3], [2], [0]]
    colours = [line.get_color() for line in (second, first)]
    assert len({*colours}) == 2 and [line.get_color() for line in diamonds] == colours
    band = axis.collections[1].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (1, 5)


def test_tabs_show_one_of_several_and_their_titles_are_text() -> None:
    shown = hb.tabs({"<b>": pd.DataFrame({"x": ["<i>"]}), "two": FORMS["heads"]()})
    html = shown._repr_html_()
    assert "<b>" not in html and "<i>" not in html and html.count(" checked>") == 1
    for wrong in ({}, dict.fromkeys("abcd", LINES), {"a": 1}):
        with refused():
            hb.tabs(wrong)._repr_html_()
