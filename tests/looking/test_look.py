"""The page: whole, offline, with every head; nothing is left of an interrupted run."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import browser as looking
import pandas as pd
import pytest
from lxml.html import fromstring
from refusing import headbook
from small import told

import headbook as hb
from headbook.looking import look as module
from headbook.looking.measured import measured
from headbook.looking.page import page
from headbook.looking.text import Text
from headbook.types import Kind

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


def hostile(model, text: Text, table: pd.DataFrame, name: str, *sentences: str) -> str:
    """A page of a model, text and sentences that are called like this."""
    names = dict.fromkeys(("model", "origin", "text", "parser"), name)
    text = replace(text, sentences=(*sentences, *text.sentences[len(sentences) :]))
    return page(model, text, told(table, **names, notes=(name,)), f"{name}.csv")


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


@pytest.mark.parametrize("name", HOSTILE, ids=range(4))
def test_what_sentences_and_names_hold_is_text(
    planted, sample: Text, planted_table: pd.DataFrame, name: str
):
    read = fromstring(hostile(planted, sample, planted_table, name, name))
    assert not read.xpath("//@onload | //@onerror | //@onmouseover | //img[@src='x']")
    assert not [each for each in read.xpath("//script//text() | //style//text()") if RUN in each]
    texts = [each for each in read.itertext() if name in each]
    assert len(texts) >= 7, "title, heading, origin, text, parser, note, sentence"
    assert read.xpath("//a/@href")[0] == f"{name}.csv"


@pytest.mark.parametrize("count", [1, 3])
def test_few_sentences_make_a_page_without_intervals(planted, count: int):
    text = hb.text("ewt-sample", first=count)
    table = hb.measure(planted, text, nulls=1, ablated=1, progress=False)
    ends = [name for name in table if name.endswith(("_low", "_high"))]
    every = hb.roles(table, held=False)
    assert len(table) == 8 and table["confidence"].notna().all() and len(ends) > 20
    assert table[ends].isna().all(axis=None) and every[["low", "high"]].isna().all(axis=None)
    assert "encoder L1H1" in page(planted, text, table, "heads.csv")


@pytest.mark.slow
def test_in_a_browser_nothing_of_a_text_or_name_runs(
    running, planted, sample, planted_table, tmp_path
):
    for name in HOSTILE:
        html = hostile(planted, sample, planted_table, name, *HOSTILE)
        (tmp_path / "page.html").write_text(html, "utf-8")
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
def test_in_a_browser_it_asks_nobody_sorts_and_fits_a_phone(running, html: str, tmp_path: Path):
    (tmp_path / "page.html").write_text(html, "utf-8")
    opened, errors = running.new_page(), []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda asked: looking.elsewhere(asked.url) and errors.append(asked.url))
    opened.set_viewport_size({"width": looking.PHONE, "height": looking.HEIGHT})
    opened.goto((tmp_path / "page.html").as_uri())
    assert opened.evaluate(looking.WIDE) == []
    opened.click("#heads th:text-is('next')")
    assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L1H2"
    opened.click("#heads th:text-is('head')")
    assert opened.inner_text("#heads tbody tr:first-child td") == "encoder L2H4"
    assert errors == []


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, planted, sample: Text, planted_table) -> list:
    """What `measure` is asked for; of another model than the first, L1H1 looks ahead."""
    asked = []

    def measure(model: object, text: Text, **options: object) -> pd.DataFrame:
        asked.append(options)
        of = dict(measured(planted_table).sums["encoder"])
        turned = [each.flip(-1) for each in vars(of["positional"]).values()]
        of["positional"] = type(of["positional"])(*turned)
        return planted_table if len(asked) == 1 else told(planted_table, sums={Kind.ENCODER: of})

    monkeypatch.setattr(module, "load", lambda name: planted)
    monkeypatch.setattr(module, "text", lambda source, first: sample)
    monkeypatch.setattr(module, "measure", measure)
    return asked


def test_flags_leave_out_what_is_slow_and_another_model_is_beside(quick: list, tmp_path: Path):
    given = ["look", "planted", "--out", str(tmp_path), "--sentence", "a <b> sat", "--sentence"]
    given += ["here too", "--beside", "other", "--no-importance", "--nulls", "0", "--no-diverse"]
    result = headbook(*given)
    assert quick == [{"importance": False, "diverse": False, "nulls": 0}] * 2
    html, _, compared = map(Path, result.stdout.split())
    table = pd.read_csv(compared, keep_default_na=False).set_index(["layer", "head"])
    assert table.loc[(1, 1), ["gained", "lost"]].tolist() == ["next token", "previous token"]
    read = fromstring(html.read_text("utf-8"))
    labels = read.xpath("//div[@class='hb-tabs']//div[@class='hb-tabs']/label/text()")
    assert labels == ["a <b> sat", "here too"] and "Beside other" in read.text_content()


def test_the_command_writes_a_page_and_a_table_or_nothing(quick: list, tmp_path, monkeypatch):
    result = headbook("look", "planted", "--out", str(tmp_path / "out"))
    html, csv = map(Path, result.stdout.split())
    assert "L1H1" in html.read_text("utf-8") and len(pd.read_csv(csv)) == 8
    assert sorted(path.name for path in html.parent.iterdir()) == ["heads.csv", "heads.html"]

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module.look("planted", out=tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
