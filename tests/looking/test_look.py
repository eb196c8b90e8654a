"""The page: whole, offline, with every head; nothing is left of an interrupted run."""

import base64
import math
import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import headbook as hb
from headbook.cli import app
from headbook.looking import look as module
from headbook.looking import page as made
from headbook.looking.measured import KEY
from headbook.looking.page import page
from headbook.looking.text import Text

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
import browser as looking

VOID = {"meta", "link", "br", "img", "input", "path", "use", "rect", "polygon", "line"}
NASTY = "</script><script>alert(1)</script> {{ answer }} {% if %} &amp; b c"


class Page(HTMLParser):
    """Elements that do not nest, what a browser would fetch, and the text of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.faults, self.asked, self.text = [], [], [], ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        named = {"src", "href", "xlink:href", "action", "poster", "data", "srcset"}
        asked = [value for name, value in attrs if name in named]
        self.asked += [each for each in asked if each != "heads.csv" and each[:1] != "#"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        pass

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.faults.append(tag)


@pytest.fixture(scope="module")
def html(planted, sample: Text, planted_table: pd.DataFrame) -> str:
    return page(planted, sample, planted_table, "heads.csv")


def test_the_page_is_whole_and_asks_nobody(html: str):
    read = Page(html)
    assert not read.faults and not read.open
    assert not [each for each in read.asked if not each.startswith("data:")]
    rest = re.sub(r'xmlns(:\w+)?="[^"]*"', "", html)
    assert not re.findall(r"https?:|@import|url\((?!#)|fetch\(|XMLHttp|import\(", rest)


def test_every_head_and_role_is_in_it(html: str):
    tables = pd.read_html(StringIO(html.replace("\u00a0%", "")))
    roles, heads = tables[0], tables[-1]
    assert "4 heads reach a published threshold" in html and len(heads) == 8
    reached = roles[roles["reached"] == "yes"].set_index("looks at")["head"].to_dict()
    assert reached == {
        "previous token": "encoder L1H1",
        "next token": "encoder L1H2",
        "verb → object": "encoder L2H2",
        "rare words": "encoder L2H1",
    }
    first = heads.set_index("head").loc["encoder L1H1"]
    assert (first["previous"], first["roles"]) == (100, "previous token")
    assert (roles["looks at"] == "subject → verb").sum() == 1, "the nearest of a role nobody has"


def test_the_attention_is_that_of_the_model(html: str):
    found = re.findall(r'value="(L\d+H\d+)"[^>]* data-roots="([^"]*)"', html)
    assert len({name for name, _ in found}) == 8
    for name, coded in found:
        roots = base64.b64decode(coded)
        size = math.isqrt(len(roots))
        if name == "L1H1":  # looks at the previous token
            assert all(roots[query * size + query - 1] == 255 for query in range(1, size - 1))


def test_what_sentences_and_names_hold_is_text(planted, sample: Text, planted_table: pd.DataFrame):
    """Escaped once, and no placeholder in it is filled in."""
    text = replace(sample, sentences=(NASTY, *sample.sentences[1:]))
    table = planted_table.copy()
    names = dict.fromkeys(("model", "origin", "text", "parser"), NASTY)
    table.attrs[KEY] = replace(planted_table.attrs[KEY], **names, notes=(NASTY,))
    html = page(planted, text, table, f'{NASTY}" onclick="x')
    read = Page(html)
    assert "<script>alert" not in html and 'onclick="x' not in html and not read.faults
    assert read.text.count(NASTY) >= 7, "title, heading, origin, text, parser, note, sentence"
    assert NASTY in unescape(re.search(r'<a href="([^"]*)">Table', html)[1])


def test_without_any_role_the_nearest_head_is_named(planted_table: pd.DataFrame):
    every = made._named(hb.roles(planted_table, held=False)).assign(held=False)
    every = every[every["chosen"] < 0.6]
    nearest = every.loc[(every["threshold"] - every["score"]).idxmin()]
    assert "No head reaches" in (said := made._answer(every)) and nearest["name"] in said
    assert "No role could be measured" in made._answer(every.iloc[:0])


def test_the_best_candidate_is_chosen_on_the_first_half():
    rows = [("r", "d", 1, 0.9, 0.1), ("r", "d", 2, 0.5, 0.8)]
    table = pd.DataFrame(rows, columns=["role", "detail", "head", "chosen", "score"])
    assert made.best(table)["head"].tolist() == [1]


def test_relations_are_said_from_the_word_that_asks():
    assert made.said("dobj_head_to_dependent") == "verb → object"
    assert made.said("nsubj_dependent_to_head") == "subject → verb"


@pytest.mark.slow
def test_in_a_browser_it_sorts_and_fits_a_phone(html: str, tmp_path: Path):
    if looking.executable() is None:
        pytest.skip("no Chromium: install it")
    (tmp_path / "page.html").write_text(html, "utf-8")
    with looking.chromium(viewport={"width": looking.PHONE, "height": 900}) as running:
        opened, errors = running.new_page(), []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto((tmp_path / "page.html").as_uri())
        assert opened.evaluate(looking.WIDE) == []
        opened.click("#heads th:text-is('next')")
        assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L1H2"
        opened.click("#heads th:text-is('head')")
        assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L2H4"
        assert errors == []


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, planted, sample: Text, planted_table) -> None:
    """`look` without its minutes."""
    monkeypatch.setattr(module, "load", lambda name: planted)
    monkeypatch.setattr(module, "text", lambda source, first: sample)
    monkeypatch.setattr(module, "measure", lambda model, text: planted_table)
    monkeypatch.setattr(module, "page", lambda *_: "<!DOCTYPE html>")


def test_the_command_writes_a_page_and_a_table(quick: None, tmp_path: Path):
    result = CliRunner().invoke(app, ["look", "planted", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    html, csv = map(Path, result.stdout.split())
    assert html.read_text("utf-8") == "<!DOCTYPE html>" and len(pd.read_csv(csv)) == 8
    assert sorted(path.name for path in html.parent.iterdir()) == ["heads.csv", "heads.html"]


def test_an_interrupted_look_leaves_nothing(quick, tmp_path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.look("planted", out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("{folder}",), "holds no model"),
        (("firefox-en-pt", "--out", "{file}"), "is a file"),
        (("firefox-en-pt", "--first", "0"), "at least 1 sentence"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, told, monkeypatch: pytest.MonkeyPatch):
    if "firefox-en-pt" in arguments:
        monkeypatch.setattr(module, "load", lambda name: None)
    (tmp_path / "folder").mkdir()
    (file := tmp_path / "file").touch()
    given = [each.format(folder=tmp_path / "folder", file=file) for each in arguments]
    result = CliRunner().invoke(app, ["look", *given])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("headbook: ") and told in result.stderr
