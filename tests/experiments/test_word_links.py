"""Links by eflomal in a small language of planted translations, and two runs side by side."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from refusing import refuses

import headbook as hb
from headbook.experiments import word_links
from headbook.text.trees import ROOT, Tree


def test_words_that_go_together_are_linked() -> None:
    pytest.importorskip("eflomal")
    noise = np.random.default_rng(0)
    sources = [[f"w{each}" for each in noise.permutation(8)[:5]] for _ in range(300)]
    targets = [[word.replace("w", "V") for word in reversed(each)] for each in sources]
    expected = {(at, 4 - at) for at in range(5)}
    for links in word_links.eflomal(sources, targets):
        assert np.mean([len(each & expected) / 5 for each in links]) > 0.95


def test_without_the_aligner_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eflomal", None)
    refuses(lambda: word_links.eflomal([["a"]], [["b"]]), r"headbook\[align\]")


SENTENCES = {
    "en": ["Maria saw 12 cats in Lisbon .", "The cats drink water ."],
    "pt": ["Maria viu 12 gatos em Lisboa .", "Os gatos bebem água ."],
}
TAGS = {"Maria": "PROPN", "12": "NUM", ".": "PUNCT"}


@pytest.fixture
def pud(monkeypatch: pytest.MonkeyPatch) -> list[word_links.Pair]:
    """Two pairs, word for word, and a second run that leaves out every other link."""

    def tree(sentence: str) -> Tree:
        words = [(found.start(), found.end()) for found in re.finditer(r"\S+", sentence)]
        tags = tuple(TAGS.get(each, "X") for each in sentence.split())
        heads = (ROOT, *[0] * (len(words) - 1))
        return Tree(sentence, tuple(words), heads, ("root", *["dep"] * (len(words) - 1)), tags)

    def text(name: str, first: int | None) -> SimpleNamespace:
        own = SENTENCES[name.removeprefix("ud-pud-")][:first]
        return SimpleNamespace(trees=[*map(tree, own)])

    sure = [" ".join(f"{at}-{at}" for at in range(len(each.split()))) for each in SENTENCES["en"]]
    first = pd.DataFrame({"sentence": range(2), "sure": sure, "possible": ""})
    fewer = first["sure"].map(lambda cell: " ".join(cell.split()[::2]))
    monkeypatch.setattr("headbook.looking.text.text", text)
    monkeypatch.setattr(word_links, "published", lambda *_: first)
    monkeypatch.setattr(word_links, "aligned", lambda language: first.assign(sure=fewer))
    return word_links.pairs(hb.load("firefox-en-pt"), "ud-pud", 3)


def test_a_pair_lies_on_the_tokens_of_a_model(pud: list[word_links.Pair]) -> None:
    model = hb.load("firefox-en-pt")
    for pair in pud:
        assert len(pair.pieces) == len(model.pieces(pair.source.text))
        assert len(pair.tokens) == len(model.pieces(pair.target.text, target=True))
        assert pair.sure.shape == (len(pair.target), len(pair.source))
        assert pair.sure.any() and (pair.sure <= pair.possible).all()
    assert [each.sum() for each in pud[0].alike] == [1, 1, 1]


def test_the_other_direction_turns_the_links(pud: list[word_links.Pair]) -> None:
    turned = word_links.pairs(hb.load("firefox-pt-en"), "ud-pud", 3)
    for one, other in zip(pud, turned, strict=True):
        assert one.source == other.target and np.array_equal(one.sure, other.sure.T)


def test_a_second_run_against_the_first(pud: list[word_links.Pair]) -> None:
    """Half of the links, all of them right, counted by hand."""
    sure = sum(pair.sure.sum() for pair in pud)
    half = sum((pair.sure.sum() + 1) // 2 for pair in pud)
    (row,) = word_links.again("firefox-en-pt", "ud-pud", 3).to_dict("records")
    assert row["error"] == pytest.approx(1 - 2 * half / (half + sure))
