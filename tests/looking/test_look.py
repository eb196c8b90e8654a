"""The page: whole, offline, with every head; nothing is left of an interrupted run."""

import base64
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from lxml.html import fromstring
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

RUN = "document.body.dataset.ran=1"
HOSTILE = (
    f"__DATA__ onload={RUN} onmouseover={RUN} a b c x=",
    f"{{{{body}}}} {{{{ answer }}}} {{% if %}} {{% raw %}} ${{{RUN}}} &amp; a b",
    f"\"><img/src=x/onerror={RUN}> '><svg/onload={RUN}> a b c",
    f"</title></script><script>{RUN}</script> </style><script>{RUN}</script> a b c",
)
"""Placeholders of the template, its syntax, ends of attributes, elements and scripts."""


@pytest.fixture(scope="module")
def html(planted, sample: Text, planted_table: pd.DataFrame) -> str:
    return page(planted, sample, planted_table, "heads.csv")


@pytest.fixture(scope="module")
def running() -> Iterator[object]:
    if looking.executable() is None:
        pytest.skip("no Chromium: install it")
    with looking.chromium() as browser:
        yield browser


def test_the_page_asks_nobody(html: str):
    asked = fromstring(html).xpath("//@src | //@href | //@*[name()='xlink:href'] | //@action")
    assert "heads.csv" in asked and not [
        each for each in asked if each != "heads.csv" and not each.startswith(("#", "data:"))
    ]
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


@pytest.mark.parametrize("name", HOSTILE, ids=range(4))
def test_what_sentences_and_names_hold_is_text(
    planted, sample: Text, planted_table: pd.DataFrame, name: str
):
    text, table = replace(sample, sentences=(name, *sample.sentences[1:])), planted_table.copy()
    names = dict.fromkeys(("model", "origin", "text", "parser"), name)
    table.attrs[KEY] = replace(planted_table.attrs[KEY], **names, notes=(name,))
    html = page(planted, text, table, f"{name}.csv")
    read = fromstring(html)
    assert not read.xpath("//@onload | //@onerror | //@onmouseover | //img[@src='x']")
    assert not [each for each in read.xpath("//script//text() | //style//text()") if RUN in each]
    texts = [each for each in read.itertext() if name in each]
    assert len(texts) >= 7, "title, heading, origin, text, parser, note, sentence"
    assert read.xpath("//a/@href")[0] == f"{name}.csv"


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_sentences_make_a_page_without_intervals(planted, sample: Text, count: int):
    text = replace(sample, sentences=sample.sentences[:count], trees=sample.trees[:count])
    table = hb.measure(planted, text, nulls=1, ablated=1, progress=False)
    ends = [name for name in table if name.endswith(("_low", "_high"))]
    every = hb.roles(table, held=False)
    assert len(table) == 8 and table["confidence"].notna().all() and len(ends) > 20
    assert table[ends].isna().all(axis=None) and every[["low", "high"]].isna().all(axis=None)
    assert "encoder L1H1" in page(planted, text, table, "heads.csv")


def test_without_any_role_the_nearest_head_is_named(planted, sample: Text, planted_table):
    read = fromstring(page(planted, sample, planted_table[planted_table["head"] == 3], "heads.csv"))
    assert re.search(r"No head reaches.*Nearest: encoder L\dH3", read.text_content())


def test_the_best_candidate_is_chosen_on_the_first_half():
    rows = [("r", "d", 1, 0.9, 0.1), ("r", "d", 2, 0.5, 0.8)]
    table = pd.DataFrame(rows, columns=["role", "detail", "head", "chosen", "score"])
    assert made.best(table)["head"].tolist() == [1]


@pytest.mark.slow
def test_in_a_browser_nothing_of_a_text_or_name_runs(
    running, planted, sample, planted_table, tmp_path
):
    text = replace(sample, sentences=(*HOSTILE, *sample.sentences[len(HOSTILE) :]))
    for name in HOSTILE:
        table = planted_table.copy()
        names = dict.fromkeys(("model", "origin", "text", "parser"), name)
        table.attrs[KEY] = replace(planted_table.attrs[KEY], **names, notes=(name,))
        (tmp_path / "page.html").write_text(page(planted, text, table, f"{name}.csv"), "utf-8")
        opened = running.new_page()
        opened.goto((tmp_path / "page.html").as_uri())
        for label in opened.query_selector_all(".hb-tabs > label"):
            label.click()
        told = (opened.title(), opened.inner_text("h1"), opened.inner_text("main"))
        assert opened.evaluate("document.body.dataset.ran") is None
        assert opened.evaluate("document.querySelectorAll('img[src=x], [onload]').length") == 0
        assert all(name in each for each in told)
        assert all(each in told[2] for each in HOSTILE)


@pytest.mark.slow
def test_in_a_browser_it_sorts_and_fits_a_phone(running, html: str, tmp_path: Path):
    (tmp_path / "page.html").write_text(html, "utf-8")
    opened, errors = running.new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.set_viewport_size({"width": looking.PHONE, "height": looking.HEIGHT})
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.evaluate(looking.WIDE) == []
    opened.click("#heads th:text-is('next')")
    assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L1H2"
    opened.click("#heads th:text-is('head')")
    assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L2H4"
    assert errors == []


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, planted, sample: Text, planted_table) -> None:
    monkeypatch.setattr(module, "load", lambda name: planted)
    monkeypatch.setattr(module, "text", lambda source, first: sample)
    monkeypatch.setattr(module, "measure", lambda model, text, **_: planted_table)


def test_flags_leave_out_what_is_slow_and_another_model_is_beside(
    quick, planted_table, tmp_path, monkeypatch
):
    asked = []

    def measure(model: object, text: Text, **options: object) -> pd.DataFrame:
        asked.append(options)
        table = planted_table.copy()
        if len(asked) == 2:  # the other model: L1H1 looks ahead
            of = table.attrs[KEY]
            sums = {kind: dict(own) for kind, own in of.sums.items()}
            old = sums["encoder"]["positional"]
            turned = [each.flip(-1) for each in (old.numerator, old.denominator)]
            sums["encoder"]["positional"] = type(old)(*turned)
            table.attrs[KEY] = replace(of, sums=sums)
        return table

    monkeypatch.setattr(module, "measure", measure)
    given = ["look", "planted", "--out", str(tmp_path), "--sentence", "a <b> sat", "--sentence"]
    given += ["here too", "--beside", "other", "--no-importance", "--nulls", "0", "--no-diverse"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert asked == [{"importance": False, "diverse": False, "nulls": 0}] * 2
    html, _, compared = map(Path, result.stdout.split())
    table = pd.read_csv(compared, keep_default_na=False).set_index(["layer", "head"])
    assert table.loc[(1, 1), ["gained", "lost"]].tolist() == ["next token", "previous token"]
    read = fromstring(html.read_text("utf-8"))
    labels = read.xpath("//div[@class='hb-tabs']//div[@class='hb-tabs']/label/text()")
    assert labels == ["a <b> sat", "here too"] and "Beside other" in read.text_content()


def test_the_command_writes_a_page_and_a_table_or_nothing(quick, tmp_path, monkeypatch):
    result = CliRunner().invoke(app, ["look", "planted", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    html, csv = map(Path, result.stdout.split())
    assert "L1H1" in html.read_text("utf-8") and len(pd.read_csv(csv)) == 8
    assert sorted(path.name for path in html.parent.iterdir()) == ["heads.csv", "heads.html"]

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.look("planted", out=tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


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
