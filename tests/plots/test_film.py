"""The film of pairs of heads: its pictures, what is told of them, and what it refuses."""

import base64
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from headbook.plots.film import ALIKE, OPPOSED, Run, film

NASTY = "</script><b> {{ alt }}"


def made(name: str = "a") -> Run:
    """Four frames of three heads; a value of its own for each frame, layer and pair."""
    values = np.full((4, 2, 3, 3), np.nan)
    for at, (frame, layer, head, other) in enumerate(np.ndindex(*values.shape)):
        if head < other:
            values[frame, layer, head, other] = values[frame, layer, other, head] = -0.3 + at / 100
    return Run(name, (0, 10, 20, 30), values, {20: 3.0, 30: 2.0}, 0.5)


def frames(html: str) -> list[list[tuple[str, np.ndarray]]]:
    """Of every run and frame what is told, and the picture's colours and opacities."""
    runs = json.loads(re.search(r'application/json">(.*?)</script>', html, re.DOTALL)[1])
    return [[(said, pixels(picture)) for said, picture in run] for run in runs]


def pixels(picture: str) -> np.ndarray:
    image = Image.open(io.BytesIO(base64.b64decode(picture.partition(",")[2])))
    return np.asarray(image.convert("RGBA"))


def test_a_picture_has_layers_side_by_side_in_the_colours_of_their_values() -> None:
    run = made()
    (found,) = frames(film([run], "alt")._repr_html_())
    for (_, picture), values in zip(found, run.values, strict=True):
        whole = np.hstack(values)
        assert picture[..., 3] / 255 == pytest.approx(np.abs(np.nan_to_num(whole)) / 0.5, abs=0.04)
        for sign, colour in ((-1, ALIKE), (1, OPPOSED)):
            seen = picture[np.sign(whole) * (picture[..., 3] > 0) == sign]
            assert (seen[:, :3] == list(bytes.fromhex(colour[1:]))).all()
    assert {np.sign(values[0, 0, 1]) for values in run.values} == {-1, 1}


def test_the_last_frame_of_the_first_run_stands_without_a_script() -> None:
    html = film([made(), made("b")], "alt")._repr_html_()
    still = re.search(r'<div class="film-grid" style="--frame: url\((.*?)\)', html)[1]
    (*_, (said, last)), _ = frames(html)
    assert (pixels(still) == last).all() and said == "update 30, loss 2.00 nats per token"
    assert f"<output>{said}</output>" in html and "update 0" in frames(html)[0][0]


def test_names_are_escaped_and_nothing_is_asked_of_another_host() -> None:
    html = film([made(NASTY)], NASTY, NASTY, (NASTY, NASTY))._repr_html_()
    assert "<b>" not in html and "http" not in html and html.count("</script>") == 2
    assert html.count("{{ alt }}") == 5
