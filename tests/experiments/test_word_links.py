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


SENTENCES = {"en": "Maria saw 12 cats in Lisbon .", "pt": "Maria viu 12 gatos em Lisboa ."}
SAME = [f"{at}-{at}" for at in range(7)]
TAGS = {"Maria": "PROPN", "12": "NUM", ".": "PUNCT"}


def links(*sure: str) -> pd.DataFrame:
    return pd.DataFrame({"sentence": [0], "sure": [" ".join(sure)], "possible": [""]})


@pytest.fixture
def pud(monkeypatch: pytest.MonkeyPatch) -> list[word_links.Pair]:
    """A pair, word for word, and a second run that leaves out every other link."""

    def tree(sentence: str) -> Tree:
        words = [(found.start(), found.end()) for found in re.finditer(r"\S+", sentence)]
        tags = tuple(TAGS.get(each, "X") for each in sentence.split())
        heads = (ROOT, *[0] * (len(words) - 1))
        return Tree(sentence, tuple(words), heads, ("root", *["dep"] * (len(words) - 1)), tags)

    def text(name: str, first: int) -> SimpleNamespace:
        return SimpleNamespace(trees=[tree(SENTENCES[name.removeprefix("ud-pud-")])])

    monkeypatch.setattr("headbook.looking.text.text", text)
    monkeypatch.setattr(word_links, "published", lambda *_: links(*SAME))
    monkeypatch.setattr(word_links, "aligned", lambda _: links(*SAME[::2]))
    return word_links.pairs(hb.load("firefox-en-pt"), "ud-pud", 3)


def test_a_pair_lies_on_the_tokens_of_a_model(pud: list[word_links.Pair]) -> None:
    model, (pair,) = hb.load("firefox-en-pt"), pud
    assert len(pair.pieces) == len(model.pieces(pair.source.text))
    assert len(pair.tokens) == len(model.pieces(pair.target.text, target=True))
    assert (pair.sure == np.eye(7)).all() and (pair.possible == np.eye(7)).all()
    assert [each.sum() for each in pair.alike] == [1, 1, 1]


@pytest.mark.usefixtures("pud")
def test_the_other_direction_turns_the_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """English is on the left of a link, and its words are the columns where it is read."""
    monkeypatch.setattr(word_links, "published", lambda *_: links("0-1"))
    found = [word_links.pairs(hb.load(name), "ud-pud", 3)[0].sure
             for name in ("firefox-en-pt", "firefox-pt-en")]  # fmt: skip
    assert found[0][1, 0] == found[1][0, 1] == found[0].sum() == found[1].sum() == 1


@pytest.mark.usefixtures("pud")
def test_a_second_run_against_the_first() -> None:
    """Four of seven links, all of them right: 4 agree with sure and 4 with possible ones."""
    (row,) = word_links.again("firefox-en-pt", "ud-pud", 3).to_dict("records")
    assert row["error"] == pytest.approx(1 - (4 + 4) / (4 + 7))
