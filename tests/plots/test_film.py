"""The film of pairs of heads: cells, data for the script, and what it refuses."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from headbook.plots.film import ALIKE, OPPOSED, Run, film
from headbook.types import UserError

LAYERS, HEADS = 2, 3


def made(name: str = "a < b", layers: int = LAYERS, frames: int = 4) -> Run:
    """Values from -0.5 up, one of its own for each frame, layer and pair."""
    values = np.full((frames, layers, HEADS, HEADS), np.nan)
    for at, (frame, layer, head, other) in enumerate(np.ndindex(*values.shape)):
        if head < other:
            values[frame, layer, head, other] = values[frame, layer, other, head] = -0.5 + at / 100
    updates = tuple(range(0, 10 * frames, 10))
    return Run(name, updates, values, {update: 5.0 - update / 10 for update in updates[1:]}, 0.5)


def data(html: str) -> list[dict]:
    return json.loads(re.search(r'application/json">(.*?)</script>', html, re.DOTALL)[1])


def cells(html: str) -> dict[tuple[int, int, int], ElementTree.Element]:
    """Squares by layer, head and other, read from where they stand."""
    found = {}
    for layer, svg in enumerate(re.findall(r'<svg viewBox="0 0 100 110".*?</svg>', html)):
        group = ElementTree.fromstring(svg).find("g")
        places = [(float(each.get("y")), float(each.get("x"))) for each in group]
        lines = sorted({x for _, x in places}), sorted({y for y, _ in places})
        for each, (y, x) in zip(group, places, strict=True):
            found[layer, lines[1].index(y), lines[0].index(x)] = each
    return found


def test_the_still_frame_is_the_last_and_has_its_colours() -> None:
    run = made()
    html = film([run], "alt")._repr_html_()
    for (layer, head, other), square in cells(html).items():
        if head == other:
            assert square.get("class") == "film-own" and square.get("data-p") is None
            continue
        value = run.values[-1, layer, head, other]
        assert square.get("fill") == (ALIKE if value < 0 else OPPOSED)
        assert float(square.get("fill-opacity")) == pytest.approx(abs(value) / 0.5, abs=0.006)
    assert "update 30, loss 2.00 nats per token" in html


def test_a_square_has_the_place_of_its_pair_among_the_numbers() -> None:
    run = made()
    html = film([run], "alt")._repr_html_()
    (encoded,) = data(html)
    for (layer, head, other), square in cells(html).items():
        if head != other:
            expected = round(100 * run.values[2, layer, head, other])
            assert encoded["frames"][2][int(square.get("data-p"))] == expected
    assert encoded["loss"] == [[10, 4.0], [20, 3.0], [30, 2.0]]
    assert encoded["moments"][0] == "update 0" and len(encoded["moments"]) == 4


def test_names_are_escaped_and_nothing_is_asked_of_another_host() -> None:
    html = film([made("</script><b>")], "alt", "q")._repr_html_()
    assert "<b>" not in html and "http" not in html and "__" not in html
    assert html.count("</script>") == 2


def test_a_training_of_the_article_s_shape_is_small() -> None:
    values = np.tile(made(layers=6, frames=40).values[..., :1, :1], (1, 1, 8, 8))
    values[:] = -0.512345
    run = Run("run", tuple(range(40)), values, {0: 1.0}, 1.0)
    assert len(film([run] * 4, "alt")._repr_html_()) < 250_000


def test_runs_of_different_shapes_and_no_run_are_refused() -> None:
    for runs in ([], [made(), made(layers=3)]):
        with pytest.raises(UserError, match="same layers and heads"):
            film(runs, "alt")
