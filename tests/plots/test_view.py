"""Drawings of attention: which lines there are, what is told of them, and what a browser shows."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import browser as looking
import numpy as np
import pytest
from refusing import refused

from headbook.plots.tabs import Tabs
from headbook.plots.view import View, draw, every

WORDS = ("dogs", "chase", "cats")
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.2, 0.03, 0.77], [0.0, 0.6, 0.4]])
LONG = tuple(f"word{n}" for n in range(40))


def shown(view: View, name: str = "wide") -> ElementTree.Element:
    found = re.search(rf'<svg class="{name}".*?</svg>', view.body, re.DOTALL)[0]
    return ElementTree.fromstring(found)


def ends(path: ElementTree.Element) -> tuple[float, float]:
    numbers = [float(each) for each in re.findall(r"-?[\d.]+", path.get("d"))]
    return numbers[0], numbers[-2]


def arcs(view: View, mark: str = "mark") -> dict[tuple[str, str], ElementTree.Element]:
    """Each arc by the words above which it begins and ends."""
    root = shown(view)
    words = {float(each.get("x")): each.text for each in root.iter("text") if each.text in WORDS}
    near = lambda x: words[min(words, key=lambda place: abs(place - x))]  # noqa: E731
    found = root.iter("path")
    return {tuple(map(near, ends(each))): each for each in found if each.get("class") == mark}


def test_every_weight_above_the_least_is_an_arc_to_its_word_as_wide_as_it_is_large() -> None:
    found = arcs(draw(WORDS, {"L1H1": WEIGHTS}, least=0.2))
    drawn = {(WORDS[one], WORDS[other]): WEIGHTS[one, other] for one, other in np.ndindex(3, 3)}
    assert set(found) == {pair for pair, weight in drawn.items() if weight >= 0.2}
    for name in ("stroke-width", "opacity"):
        values = [float(found[pair].get(name)) for pair in sorted(found, key=drawn.get)]
        assert values == sorted(set(values)), name


def test_only_the_words_that_ask_have_arcs_titles_and_percentages() -> None:
    view = draw(WORDS, {"L1H1": WEIGHTS}, ask=["chase"])
    assert set(arcs(view)) == {("chase", "dogs"), ("chase", "cats")}
    assert [each.text for each in shown(view).iter("title")] == ["chase → cats 77 %, dogs 20 %"]
    assert draw(WORDS, {"L1H1": WEIGHTS}, ask=[1]).body == view.body
    place = {each.text: each.get("x") for each in shown(view).iter("text")}
    assert place["77 %"] == place["cats"] and place["20 %"] == place["dogs"] and "3 %" not in place


def test_the_correct_answer_is_dotted_and_the_head_s_is_judged() -> None:
    right = draw(WORDS, {"L1H1": WEIGHTS}, ask=["chase"], gold=[("chase", "cats")])
    wrong = draw(WORDS, {"L1H1": WEIGHTS}, ask=["chase"], gold=[(1, 0)])
    assert set(arcs(right, "gold")) == {("chase", "cats")}
    assert set(arcs(wrong, "gold")) == {("chase", "dogs")}
    assert "✓" in right.alt and "✗" not in right.alt
    assert "dotted" in wrong.body and "dotted" not in right.body, "there it lies below the arc"
    assert "✗ (correct: dogs 20 %)" in wrong.alt and "✓" not in wrong.alt
    every_word = draw(WORDS * 2, {"L1H1": np.kron(np.eye(2), WEIGHTS)}, gold=[(0, 0), (1, 0)])
    assert "1 of 2 correct" in every_word.body


def test_between_two_sentences_lines_go_from_left_to_right() -> None:
    root = shown(draw(["cães", "caçam"], {"L1H1": WEIGHTS[:2]}, keys=WORDS))
    middle = {each.text: float(each.get("y")) - 5 for each in root.iter("text")}
    paths = [re.findall(r"-?[\d.]+", path.get("d")) for path in root.iter("path")]
    pairs = [("cães", "dogs"), ("cães", "chase"), ("caçam", "dogs"), ("caçam", "cats")]
    wanted = {(middle[word], middle[key]) for word, key in pairs}
    assert {(float(path[1]), float(path[-1])) for path in paths} == wanted


def test_a_matrix_has_a_cell_for_every_asking_word_and_key() -> None:
    view = draw(WORDS, {"L1H1": WEIGHTS}, layout="matrix", ask=["chase", "cats"], gold=[(1, 2)])
    groups = [each for each in shown(view) if each.get("tabindex")]
    cells = [[each for each in group.iter("rect")] for group in groups]
    found = [[float(each.get("fill-opacity")) for each in row] for row in cells]
    assert found == WEIGHTS[1:].tolist()
    assert [row[2].get("class") for row in cells] == ["gold", "mark"]
    lefts, tops = (np.array([[float(x.get(k)) for x in r] for r in cells]) for k in ("x", "y"))
    assert (np.diff(lefts) > 0).all() and (np.diff(tops, axis=0) > 0).all()


@pytest.mark.parametrize("layout", ["arcs", "lines", "matrix"])
def test_words_are_text_whatever_they_hold(layout: str) -> None:
    nasty = ["</svg><script>alert(1)</script>", "$a_b$", '" onfocus="x']
    view = draw(nasty, {"<b>": WEIGHTS}, layout=layout, gold=[(0, 1)])
    html = view._repr_html_()
    assert all(each.get("fill") is None for each in shown(view).iter("text")), "the page's ink"
    assert "<script" not in html and "<b><b>" not in html and 'onfocus="' not in html
    texts = [each.text for each in shown(view).iter("text")]
    assert {"$a_b$", nasty[2]} <= set(texts) and any(each.startswith("</svg>") for each in texts)


def test_what_cannot_be_drawn_is_named() -> None:
    for wrong in ({"ask": ["mice"]}, {"ask": [3]}, {"ask": [-1]}, {"gold": [("dogs", "mice")]},
                  {"layout": "ring"}, {"keys": ["one"]}):  # fmt: skip
        with refused():
            draw(WORDS, {"L1H1": WEIGHTS}, **wrong)
    with refused("0, 2"):
        draw(("a", "b", "a"), {"L1H1": WEIGHTS}, ask=["a"])


def seen(words: tuple[str, ...] = WORDS) -> SimpleNamespace:
    """Two layers of two heads: a flat one, one a step back, WEIGHTS, and the word itself."""
    heads = [np.full((3, 3), 1 / 3), np.eye(3)[[0, 0, 1]], WEIGHTS, np.eye(3)]
    return SimpleNamespace(words=words, keys=words, weights=np.reshape(heads, (2, 2, 3, 3)))


def test_every_head_is_a_map_of_its_weights() -> None:
    view = every(seen())
    coded = re.findall(r'value="(\w+)"[^>]* data-roots="([^"]+)"', view.body)
    assert [name for name, _ in coded] == ["L1H1", "L1H2", "L2H1", "L2H2"]
    for (_, roots), weights in zip(coded, seen().weights.reshape(4, 3, 3), strict=True):
        read = np.frombuffer(base64.b64decode(roots), np.uint8).reshape(3, 3) / 255
        assert read**2 == pytest.approx(weights, abs=0.005)
    assert "<b>L1H2</b>" in view.body  # the first of the surest two


@pytest.fixture
def opened(running: object, tmp_path: Path) -> Iterator[object]:
    """Opens a view as a page that may ask nothing of the network."""
    page, errors = running.new_page(), []
    page.set_viewport_size({"width": looking.PHONE, "height": 900})
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda asked: looking.elsewhere(asked.url) and errors.append(asked.url))

    def open_(view: View | Tabs) -> object:
        head = "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="
        head += "'width=device-width'><title>t</title><body><main><h1>t</h1>"
        (file := tmp_path / "view.html").write_text(f"{head}{view._repr_html_()}</main>", "utf-8")
        page.goto(file.as_uri())
        return page

    yield open_
    page.close()
    assert errors == []


SOME = {
    "arcs": lambda: draw(WORDS * 3, {"L1H1": np.eye(9), "L1H2": np.eye(9)}, ask=[1], gold=[(1, 2)]),
    "long": lambda: draw(LONG, {"L1H1": np.eye(40)[::-1], "L1H2": np.eye(40)}, ask=[3, 4]),
    "every": lambda: Tabs({"one": every(seen()), "two": every(seen(("a", "b", "c")))}),
}
SMALLEST = """() => Math.min(...[...document.querySelectorAll('svg text, p')]
  .filter((each) => each.checkVisibility()).map((each) => {
    const svg = each.closest('svg'), scale = svg ? svg.getBoundingClientRect().width
      / svg.viewBox.baseVal.width : 1;
    return scale * parseFloat(getComputedStyle(each).fontSize);
  }))"""
LINES = """() => [...[...document.querySelectorAll('.hb-tabs > div')]
  .find((each) => each.checkVisibility())
  .querySelectorAll('g[tabindex] path')].map((line) => Number(line.getAttribute('stroke-width')))"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_on_a_phone_it_is_whole_legible_and_accessible(name: str, opened: object) -> None:
    page = opened(SOME[name]())
    assert not page.locator(".hb-plain:visible").count(), "for notebooks that are not trusted"
    assert page.evaluate(looking.WIDE) == []
    assert page.evaluate(SMALLEST) >= 11
    assert looking.axe(page) == []
    page.set_viewport_size({"width": looking.DESK, "height": 900})
    assert page.evaluate(SMALLEST) >= 11


@pytest.mark.parametrize("name", ["every", "arcs"])
def test_without_trust_a_plain_picture_says_what_the_drawing_says(name: str) -> None:
    """JupyterLab leaves SVG and styles out, but not their words, and hides what has its class."""
    html = SOME[name]()._repr_html_()
    hidden = r'<div class="hb-drawn jp-mod-hidden">.*?(<svg.*?</svg>).*?base64,([^"]+)"/>'
    drawn = re.findall(hidden, html, re.DOTALL)
    assert drawn and "<text" not in re.sub(hidden, "", html, flags=re.DOTALL)
    for svg, coded in drawn:
        both = map(ElementTree.fromstring, (svg, base64.b64decode(coded)))
        one, other = ("".join(each.itertext()) for each in both)
        assert one == other


@pytest.mark.slow
def test_heads_and_sentences_are_chosen_with_keys(opened: object) -> None:
    page = opened(SOME["every"]())
    assert np.flatnonzero(page.evaluate(LINES)).tolist() == [0, 3, 7]  # L1H2 looks a step back
    page.focus("input[value=L1H2]")
    page.keyboard.press("ArrowRight")
    widths = np.reshape(page.evaluate(LINES), (3, 3))
    assert (np.argsort(widths.ravel())[-4:] == np.argsort(WEIGHTS.ravel())[-4:]).all()
    assert (widths > 0).tolist() == (WEIGHTS >= 0.05).tolist()
    title = "document.querySelectorAll('.hb-tabs > div g[tabindex] title')[1].textContent"
    assert page.evaluate(title) == "chase → cats 77 %, dogs 20 %"
    page.focus(".hb-tabs > input")
    page.keyboard.press("ArrowRight")
    shown = page.inner_text(".hb-tabs > div:visible .said")
    assert shown == "L2H1", "the same head, in another sentence"
    assert "cats" not in page.inner_text("main")


@pytest.mark.slow
def test_the_keyboard_sees_one_word_at_a_time(opened: object) -> None:
    page = opened(draw(WORDS, {"L1H1": WEIGHTS}))
    told = "document.activeElement.querySelector('title').textContent"
    found = []
    for _ in WORDS:
        page.keyboard.press("Tab")
        found.append(page.evaluate(told))
    assert found[1] == "chase → cats 77 %, dogs 20 %" and len(set(found)) == 3
    page.wait_for_timeout(300)
    faded = "getComputedStyle(document.querySelector('svg.wide g[tabindex] .mark')).opacity < .1"
    assert page.evaluate(faded)
