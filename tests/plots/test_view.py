"""The view of heads: its still picture, the numbers of its script, and each kind of attention."""

import base64
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from headbook.looking.load import load
from headbook.plots.view import FAINT, Seen, Series, seen, series_of, view
from headbook.types import Kind, UserError


def made(tokens: int = 4) -> Seen:
    """Two layers of two heads; the last head looks at the next token, the others everywhere."""
    names = tuple(f"<{at}>" for at in range(tokens))
    weights = np.full((2, 2, tokens, tokens), 1 / tokens)
    weights[1, 1] = np.roll(np.eye(tokens), 1, axis=1)
    norms = np.ones((2, 2, tokens))
    norms[0, 0, 0] = 4.0
    special = (False,) * (tokens - 1) + (True,)
    return Seen("a <b> c", Kind.ENCODER, names, names, special, special, weights, norms)


def data(html: str) -> list[dict]:
    return json.loads(re.search(r'application/json">(.*?)</script>', html, re.DOTALL)[1])


def numbers(encoded: str, *shape: int) -> np.ndarray:
    """As the script reads them: squares of bytes."""
    grains = np.frombuffer(base64.b64decode(encoded), dtype=np.uint8).reshape(shape)
    return (grains / 255.0) ** 2


def test_the_still_picture_is_the_first_head_s() -> None:
    html = view([Series("a < b", (made(),), (2, 2))], "alt")._repr_html_()
    picture = ElementTree.fromstring(re.search(r"<svg.*?</svg>", html, re.DOTALL)[0])
    lines = [(int(each.get("y1")), int(each.get("y2"))) for each in picture.iter("line")]
    places = [15 + 24 * at for at in range(4)]
    assert lines == list(zip(places, [*places[1:], places[0]], strict=True))
    assert [each.text for each in picture.iter("text")] == [f"<{at}>" for at in range(4)] * 2
    assert "__" not in re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)


def test_the_script_reads_the_weights_and_norms_back() -> None:
    given = made()
    (encoded,) = data(view([Series("name", (given,))], "alt").html())
    (sentence,) = encoded["sentences"]
    assert (encoded["layers"], encoded["heads"], encoded["norms"]) == (2, 2, True)
    np.testing.assert_allclose(numbers(sentence["weights"], 2, 2, 4, 4), given.weights, atol=0.004)
    shares = numbers(sentence["norms"], 2, 2, 4)
    np.testing.assert_allclose(shares[0, 0], [1, 0.25, 0.25, 0.25], atol=0.004)
    np.testing.assert_allclose(shares[1], 1)


def test_small_weights_are_still_told_apart() -> None:
    given = made()
    given.weights[0, 0, 0] = [0.997, 0.0005, 0.001, 0.0015]
    (encoded,) = data(view([Series("name", (given,))], "alt").html())
    first = numbers(encoded["sentences"][0]["weights"], 2, 2, 4, 4)[0, 0, 0]
    assert 0 < first[1] < first[2] < first[3] < FAINT


def test_a_view_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="a sentence at least"):
        view([], "alt")
    with pytest.raises(UserError, match="a sentence at least"):
        view([Series("name", ())], "alt")


def test_a_student_shows_its_encoder_and_what_its_translation_looks_at() -> None:
    model = load("firefox-en-pt")
    encoder, cross = seen(model, "The cat sat here.", "O gato sentou aqui.")
    assert encoder.keys == encoder.queries == cross.keys
    assert cross.queries[-1] == encoder.keys[-1] and cross.special_queries[-1]
    assert cross.weights.shape == (2, 8, len(cross.queries), len(cross.keys))
    assert cross.norms.shape == (2, 8, len(cross.keys))
    assert [each.kind for each in seen(model, "The cat sat here.")] == [Kind.ENCODER]
    names = [each.name for each in series_of(model, ["The cat sat here."], "student")]
    assert names == ["student, encoder", "student, cross"]
