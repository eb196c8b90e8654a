"""The page: whole, offline, with every head; nothing is left of an interrupted run."""

import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import headbook as hb
from headbook.cli import app
from headbook.looking import look as module
from headbook.looking.page import page
from headbook.looking.sections import _answer
from headbook.looking.text import Text
from headbook.looking.wording import best_candidates, said

VOID = {"meta", "link", "br", "img", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """Elements, their attributes, whether they nest, and the text of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.open, self.faults = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list) -> None:
        self.attributes += [(tag, *each) for each in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.faults.append(tag)


@pytest.fixture(scope="module")
def heads(planted_table: pd.DataFrame) -> pd.DataFrame:
    return planted_table


@pytest.fixture(scope="module")
def html(planted, sample: Text, heads: pd.DataFrame) -> str:
    return page(planted, sample, heads, "heads.csv")


def data(html: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def viewed(html: str) -> list[tuple[str, bytes]]:
    """Every head of every sentence: its name, and the square roots of its weights as bytes."""
    found = re.findall(r'value="(L\d+H\d+)"[^>]* data-roots="([^"]*)"', html)
    return [(name, base64.b64decode(roots)) for name, roots in found]


def requests(html: str) -> list[str]:
    """Whatever a browser would fetch: attributes and code, not the sentences' own text."""
    read = Page(html)
    names = {"src", "href", "xlink:href", "action", "poster", "data", "srcset"}
    asked = [each[2] for each in read.attributes if each[1] in names]
    asked = [each for each in asked if each != "heads.csv" and not each.startswith(("#", "data:"))]
    rest = re.sub(r'="application/json".*?</script>', "", html, flags=re.DOTALL)
    for space in {each[2] for each in read.attributes if each[1].startswith("xmlns")}:
        rest = rest.replace(space, "")
    return asked + re.findall(r"https?:|@import|url\((?!#)|fetch\(|XMLHttp|import\(", rest)


def test_the_page_is_whole_and_asks_nobody(html: str):
    read = Page(html)
    assert not read.faults and not read.open and "{{" not in html
    assert requests(html) == []


@pytest.mark.parametrize(
    "planted_fault",
    ['<img src="//example.org/a.png">', "<style>@import 'a'</style>", "<script>fetch(1)</script>"],
)
def test_a_request_would_be_seen(html: str, planted_fault: str):
    assert requests(html.replace("</main>", f"{planted_fault}</main>"))


def test_every_head_is_in_it(html: str, heads: pd.DataFrame):
    found = data(html)
    assert len(found["heads"]) == len(heads) == 8
    assert found["heads"][0]["previous"] == 1 and found["heads"][0]["roles"] == "previous token"
    table = re.search(r'<table id="heads">.*?</table>', html, re.DOTALL)[0]
    assert table.count('scope="row"') == 8
    assert "4 heads reach a published threshold" in html


def test_the_attention_is_that_of_the_model(html: str):
    found = viewed(html)
    assert len({name for name, _ in found}) == 8
    for name, roots in found:
        size = math.isqrt(len(roots))
        if name == "L1H1":  # looks at the previous token
            assert all(roots[query * size + query - 1] == 255 for query in range(1, size - 1))


def test_a_sentence_is_text_on_the_page(planted, sample: Text, heads: pd.DataFrame):
    nasty = "</script><script>alert(1)</script> a b c d e f"
    text = replace(sample, sentences=(nasty, *sample.sentences[1:]))
    html = page(planted, text, heads, "heads.csv")
    assert "alert(1)</script>" not in html
    assert ">&lt;/script&gt;" in html and not Page(html).faults


def test_without_any_role_the_nearest_head_is_named(planted, sample: Text, heads: pd.DataFrame):
    every = hb.roles(heads, held=False)
    none = _answer(every.iloc[:0], every[every["chosen"] < 0.6])
    assert "No head reaches a published threshold" in none and "Nearest" in none


def test_the_best_candidate_is_chosen_on_the_first_half():
    rows = [("r", "d", 1, 0.9, 0.1), ("r", "d", 2, 0.5, 0.8)]
    table = pd.DataFrame(rows, columns=["role", "detail", "head", "chosen", "score"])
    assert best_candidates(table)["head"].tolist() == [1]


def test_details_are_said_in_words():
    assert said("dobj_head_to_dependent") == "verb → object"
    assert said("nsubj_dependent_to_head") == "subject → verb"
    assert said("-1") == "−1" and said("one of two rarest") == "one of two rarest"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, planted, sample: Text, heads: pd.DataFrame) -> None:
    """`look` without its minutes."""
    monkeypatch.setattr(module, "load", lambda name: planted)
    monkeypatch.setattr(module, "text", lambda source, first: sample)
    monkeypatch.setattr(module, "measure", lambda model, text: heads)


def test_the_command_writes_a_page_and_a_table(quick: None, tmp_path: Path):
    result = CliRunner().invoke(app, ["look", "planted", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    html, csv = map(Path, result.stdout.split())
    assert html.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert len(pd.read_csv(csv)) == 8
    assert sorted(path.name for path in html.parent.iterdir()) == ["heads.csv", "heads.html"]


def test_an_interrupted_look_leaves_nothing(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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
        (("{folder}/absent",), "no such folder"),
        (("firefox-en-pt", "--text", "{folder}"), "is a folder"),
        (("firefox-en-pt", "--out", "{file}"), "is a file"),
        (("firefox-en-pt", "--first", "0"), "at least 1 sentence"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, arguments: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
):
    if "firefox-en-pt" in arguments:
        monkeypatch.setattr(module, "load", lambda name: None)
    file = tmp_path / "file"
    (tmp_path / "folder").mkdir()
    file.touch()
    given = [each.format(folder=tmp_path / "folder", file=file) for each in arguments]
    result = CliRunner().invoke(app, ["look", *given])
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("headbook: ") and result.stderr.count("\n") == 1
    assert told in result.stderr
