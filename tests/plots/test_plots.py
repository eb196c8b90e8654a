"""Figures are inline SVG: no fixed size, no fixed ink, ids of their own, a description."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pandas as pd
import pytest

from headbook import plots
from headbook.plots.svg import INK, Drawing
from headbook.types import Kind, UserError

HEADS = pd.DataFrame(
    [("encoder", layer, head, (layer + head) / 20, "r") for layer in range(1, 5)
     for head in range(1, 9)],
    columns=["kind", "layer", "head", "confidence", "letter"],
)  # fmt: skip
ROWS = pd.DataFrame(
    [(name, model, 0.5, 0.4, 0.6, 0.3) for name in ("a → b", "b → a") for model in ("x", "y")],
    columns=["relation", "model", "value", "low", "high", "paper"],
)
LINES = pd.DataFrame({"update": [0, 10, 100], "value": [1.0, 2, 3], "low": [0.5, 1, 2],
                      "high": [2.0, 3, 4], "left": [48, 20, 4]})  # fmt: skip
FORMS: dict[str, Callable[[], Drawing]] = {
    "heads": lambda: plots.heads(HEADS, "confidence", label="letter"),
    "intervals": lambda: plots.intervals(ROWS, "relation", hue="model", marks={"paper": "paper"}),
    "paired": lambda: plots.paired(ROWS[ROWS["model"] == "x"], "relation", "low", "high"),
    "curves": lambda: plots.curves(LINES, "update", log=True, marks=LINES.head(1)),
    "pruning": lambda: plots.pruning(LINES),
    "points": lambda: plots.points(HEADS.assign(x=HEADS["head"], y=HEADS["layer"])),
}
every_form = pytest.mark.parametrize("form", FORMS)


@every_form
def test_a_figure_is_as_wide_as_its_column(form: str) -> None:
    root = ET.fromstring(FORMS[form]().svg())
    assert root.attrib["width"] == "100%"
    assert "height" not in root.attrib
    assert root.attrib["viewBox"].startswith("0 0 440")


@every_form
def test_text_and_axes_have_the_colour_of_the_page(form: str) -> None:
    svg = FORMS[form]().svg()
    assert INK not in svg
    assert "currentColor" in svg
    assert not re.search(r"(fill|stroke): ?(#000000|black)\b", svg)
    for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        assert "fill" in text.attrib.get("style", ""), "text without a fill is black"


@every_form
def test_a_figure_is_described_and_its_ids_are_its_own(form: str) -> None:
    svg = FORMS[form]().svg()
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert len(root.attrib["aria-label"]) > 10
    assert root[0].text == root.attrib["aria-label"]
    ids = re.findall(r'\bid="([^"]+)"', svg)
    prefix = ids[0].split("-")[0]
    assert all(each.startswith(f"{prefix}-") for each in ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= set(ids)


def test_two_figures_share_no_id_and_the_same_figure_is_the_same_text() -> None:
    one, two = (FORMS[form]().svg() for form in ("curves", "pruning"))
    assert not set(re.findall(r'\bid="([^"]+)"', one)) & set(re.findall(r'\bid="([^"]+)"', two))
    assert one == FORMS["curves"]().svg()


def test_a_plain_table_of_heads_is_shown_in_a_plain_notebook() -> None:
    html = plots.heads(HEADS, "confidence")._repr_html_()
    assert html.startswith('<div class="headbook-figure"><svg')
    assert "layer 4 head 8" in html


def test_every_kind_of_attention_has_a_panel() -> None:
    both = pd.concat([HEADS, HEADS.assign(kind="cross")])
    axes = plots.heads(both, "confidence").figure.axes
    assert [axis.get_title("left") for axis in axes] == ["encoder heads", "cross heads", ""]


@pytest.mark.parametrize(
    ("table", "said"),
    [(HEADS.drop(columns="layer"), "no column layer"), (pd.concat([HEADS, HEADS]), "several rows")],
)
def test_a_table_that_cannot_be_drawn_is_refused(table: pd.DataFrame, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plots.heads(table, "confidence")


def test_the_papers_values_are_marks_at_their_place() -> None:
    axis = FORMS["intervals"]().figure.axes[0]
    marks = [line for line in axis.lines if line.get_marker() == "D"]
    assert {x for line in marks for x in line.get_xdata()} == {0.3}


def test_the_papers_values_take_the_colour_of_their_line() -> None:
    rows = pd.DataFrame(
        {"x": [0, 1] * 2, "value": range(4), "kind": ["encoder"] * 2 + ["cross"] * 2}
    )
    axis = plots.curves(rows, "x", hue="kind", marks=rows.iloc[[2]]).figure.axes[0]
    (mark,) = [line for line in axis.lines if line.get_marker() == "D" and len(line.get_xdata())]
    assert mark.get_color() == plots.KINDS[Kind.CROSS]


def test_panels_share_axes_colours_and_one_legend() -> None:
    rows = [(model, order, left, left + (model == "b"))
            for model in "ab" for order in ("one", "two") for left in (1, 8)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["model", "order", "left", "value"])
    figure = plots.pruning(frame, hue="order", panel="model").figure
    first, second = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["a", "b"]
    assert [axis.xaxis_inverted() for axis in figure.axes] == [True, True]
    assert first.get_ylim() == second.get_ylim() and first.get_xlim() == second.get_xlim()
    colours = [[line.get_color() for line in axis.lines] for axis in figure.axes]
    assert colours[0] == colours[1] and len(set(colours[0])) == 2
    assert second.lines[0].get_ydata().tolist() == [2, 9]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one", "two"]


def test_colours_are_fixed_and_differ() -> None:
    for palette in (plots.KINDS, plots.ROLES):
        assert len(set(palette.values())) == len(palette)
    assert set(plots.KINDS) == set(Kind)


def test_a_map_without_values_is_drawn_and_says_so() -> None:
    drawn = plots.heads(HEADS.assign(confidence=float("nan")), "confidence")
    assert "no values" in drawn.alt


def test_every_head_is_a_dot_with_the_number_of_its_layer() -> None:
    svg = plots.points(HEADS.assign(x=HEADS["head"], y=HEADS["layer"])).svg()
    texts = [text.text for text in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert [texts.count(str(layer)) for layer in range(1, 5)] == [8] * 4
    with pytest.raises(UserError, match="no column x, y"):
        plots.points(HEADS)
