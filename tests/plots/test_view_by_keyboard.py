"""The view of heads used without a mouse, on a phone's width and without a network."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headbook.plots.view import Seen, Series, view
from headbook.types import Kind

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
import browser as looking

pytestmark = [
    pytest.mark.slow,  # a browser is many processes
    pytest.mark.skipif(looking.executable() is None, reason="no Chromium: install it"),
]
TOKENS, LAYERS, HEADS = 5, 2, 3
NAMES = ("a", "rose", "is", "red", "</s>")


def made() -> Seen:
    """Head 1 of layer 1 looks at the own token, and every further head one token further on."""
    weights = np.stack([np.roll(np.eye(TOKENS), at, axis=1) for at in range(LAYERS * HEADS)])
    weights = weights.reshape(LAYERS, HEADS, TOKENS, TOKENS)
    special = (False,) * (TOKENS - 1) + (True,)
    return Seen("a rose is red", Kind.ENCODER, NAMES, NAMES, special, special, weights,
                np.ones((LAYERS, HEADS, TOKENS)))  # fmt: skip


@pytest.fixture
def phone(tmp_path: Path) -> Iterator[object]:
    """A page with the view alone, 390 px wide, that may ask nothing of the network."""
    head = "<!doctype html><meta name='viewport' content='width=device-width'><title>t</title>"
    file = tmp_path / "view.html"
    shown = view([Series("first", (made(),)), Series("second", (made(),))], "alt").html()
    file.write_text(f"{head}<body>{shown}</body>", encoding="utf-8")
    wide = {"width": looking.PHONE, "height": 900}
    with looking.chromium(viewport=wide, has_touch=True) as browser:
        page = browser.new_page()
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda asked: looking.elsewhere(asked.url)
                and page.errors.append(asked.url))  # fmt: skip
        page.goto(file.as_uri())
        page.wait_for_selector(".view-cell canvas")
        yield page
        assert page.errors == []


def said(page: object) -> str:
    return page.text_content(".view-said")


def focused(page: object, by: str) -> str:
    return page.evaluate(f"document.activeElement.getAttribute('{by}')")


def tab_to(page: object, selector: str) -> None:
    """Presses Tab until an element that the selector names has the focus."""
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"{selector} is not reached with Tab")


def test_arrow_keys_move_along_the_tokens(phone: object) -> None:
    tab_to(phone, ".view-lines [role=option]")
    assert said(phone) == "Layer 1, head 1: “a” looks at “a” 100 %."
    phone.keyboard.press("ArrowDown")
    assert said(phone) == "Layer 1, head 1: “rose” looks at “rose” 100 %."
    assert focused(phone, "aria-label") == "rose: “rose” 100 %"
    phone.keyboard.press("ArrowUp")
    phone.keyboard.press("Escape")
    assert "Point at a token" in said(phone)


def test_arrow_keys_choose_a_head_and_stay_within_the_grid(phone: object) -> None:
    tab_to(phone, ".view-cell")
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        phone.keyboard.press(key)
    assert focused(phone, "aria-label") == "layer 2, head 3"
    assert said(phone).startswith("Layer 2, head 3.")
    chosen = [each.input_value() for each in phone.query_selector_all("select")]
    assert chosen[2:4] == ["1", "2"]
    phone.keyboard.press("Shift+Tab")
    assert focused(phone, "role") == "option"
    assert said(phone) == "Layer 2, head 3: “a” looks at “a” 100 %."


def test_every_choice_is_reached_with_tab_and_made_with_keys(phone: object) -> None:
    tab_to(phone, "label:nth-child(3) select")
    phone.keyboard.press("ArrowDown")
    assert said(phone).startswith("Layer 2, head 1.")
    tab_to(phone, "label:nth-child(5) select")
    phone.keyboard.press("ArrowDown")
    tab_to(phone, ".view-lines [role=option]")
    assert said(phone) == "Layer 2, head 1: “a” takes from “red” 100 %."


def test_a_tap_shows_where_a_token_looks_and_nothing_is_wider_than_the_phone(
    phone: object,
) -> None:
    phone.tap(".view-cell >> nth=1")
    phone.tap(".view-lines [role=option] >> nth=2")
    assert said(phone) == "Layer 1, head 2: “is” looks at “red” 100 %."
    assert phone.evaluate(looking.WIDE) == []
