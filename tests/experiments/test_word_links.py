"""Links by eflomal in a small language of planted translations, and two runs side by side."""

import sys

import numpy as np
import pytest

import headbook as hb
from headbook.experiments import word_links
from headbook.results import published
from headbook.types import UserError


def test_words_that_go_together_are_linked() -> None:
    pytest.importorskip("eflomal")
    noise = np.random.default_rng(0)
    sources = [[f"w{each}" for each in noise.permutation(8)[:5]] for _ in range(300)]
    targets = [[word.replace("w", "V") for word in reversed(each)] for each in sources]
    one, other = word_links.eflomal(sources, targets)
    expected = {(at, 4 - at) for at in range(5)}
    right = [len(each & expected) / 5 for each in (*one, *other)]
    assert np.mean(right) > 0.95


def test_without_the_aligner_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    with pytest.raises(UserError, match="headbook\\[align\\]"):
        word_links.eflomal([["a"]], [["b"]])


@pytest.fixture
def pud(monkeypatch: pytest.MonkeyPatch) -> list[word_links.Pair]:
    """Three pairs, and a second run that leaves out every other link."""
    model = hb.load("firefox-en-pt")
    first = published(53, "links")
    fewer = first["sure"].map(lambda cell: " ".join(cell.split()[::2]))
    monkeypatch.setattr(word_links, "aligned", lambda language: first.assign(sure=fewer))
    return word_links.pairs(model, "pud-sample", 3)


def test_a_pair_lies_on_the_tokens_of_a_model(pud: list[word_links.Pair]) -> None:
    model = hb.load("firefox-en-pt")
    for pair in pud:
        assert len(pair.pieces) == len(model.pieces(pair.source.text))
        assert len(pair.tokens) == len(model.pieces(pair.target.text, target=True))
        assert pair.sure.shape == (len(pair.target), len(pair.source))
        assert pair.sure.any() and (pair.sure <= pair.possible).all()
        for kind in pair.alike:
            for target, source in np.argwhere(kind):
                assert pair.target.forms[target] == pair.source.forms[source]
    names = [(pair.alike[1] & pair.sure).sum() for pair in pud]
    assert sum(names) > 0.5 * sum(pair.alike[1].sum() for pair in pud) > 0


def test_the_other_direction_turns_the_links(pud: list[word_links.Pair]) -> None:
    turned = word_links.pairs(hb.load("firefox-pt-en"), "pud-sample", 3)
    for one, other in zip(pud, turned, strict=True):
        assert one.source == other.target and np.array_equal(one.sure, other.sure.T)


def test_a_second_run_against_the_first(pud: list[word_links.Pair]) -> None:
    """Half of the links, all of them right, counted by hand."""
    sure = sum(pair.sure.sum() for pair in pud)
    half = sum((pair.sure.sum() + 1) // 2 for pair in pud)
    (row,) = word_links.again("firefox-en-pt", "pud-sample", 3).to_dict("records")
    assert row["error"] == pytest.approx(1 - 2 * half / (half + sure))
    assert row["sentences"] == 3 and row["model"] == "en-pt"


def test_a_model_that_translates_nothing_is_one_line() -> None:
    with pytest.raises(UserError, match="does not translate"):
        word_links.pairs(hb.load("minilm"), "pud-sample", 3)
