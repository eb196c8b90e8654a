"""References to cells of published tables: what they find, and what each kind of fault says."""

import os
import re
from pathlib import Path

import pytest
from published_table import put
from refusing import refused

from headbook.cells import Reference, cell, parse

BEST = """\
model,text,question,layer,head,value,value_low,value_high,offset,sentences
firefox-en-pt,ud-ewt,verb → object,6,5,0.66,0.63,0.694,0.35,4078
firefox-en-pt,ud-ewt,"subject, any",6,2,0.53,0.51,0.56,0.354,4078
minilm,ud-ewt,verb → object,3,6,0.55,0.53,0.58,0.351,4078
minilm,pud,verb → object,3,6,0.5,,,0.34,
"""
ONE = "best[firefox-en-pt; ud-ewt; verb → object]"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "13/best", BEST)
    return put(tmp_path, "13/roles", "model,role\nminilm,rare\nfirefox-en-pt,\n")


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (f"{ONE}.value:%ci", "66\u00a0% [63, 69]"),
        (f"{ONE}.sentences:n", "4,078"),
        ("best[model=minilm; text = pud].value:%ci", "50\u00a0%"),
        ("best[layer=3;\n ud-ewt].value:%", "55\u00a0%"),
        ("best[sentences=].value:%", "50\u00a0%"),
        ("best[minilm; ud-ewt]:%", "55\u00a0%"),
        ("mean(best[verb → object].value):%", "57\u00a0%"),
        ("count(best[minilm].sentences)", "1"),
    ],
)
def test_a_reference_is_resolved(root: Path, reference: str, text: str) -> None:
    assert cell(parse(reference, "13"), root).text == text


def test_the_origin_names_table_keys_value_and_interval(root: Path) -> None:
    found = cell(parse("best[layer=6; verb → object].value:%", "13"), root)
    assert found.origin == "13/best: layer 6, verb → object; value 0.66, 0.63 to 0.694"
    many = cell(parse("mean(best[minilm].value):%", "13"), root)
    assert many.origin == "13/best: minilm; mean of value, 2 rows: 0.525"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("best[minilm].value:%", "leaves 2 rows.*text=ud-ewt.*text=pud"),
        (f"{ONE[:-1]}; layer=3].value:%", "no row has layer '3'.*it is 6"),
        ("best[verb → object; 6].value:%", "layer and head.*layer=6"),
        ("best[firefox-en-pf].value:%", "'firefox-en-pf'.*firefox-en-pt"),
        ("best[modell=minilm].value:%", "modell=minilm.*model, text, question"),
        (f"{ONE}.valeu:%", "'valeu'.*value"),
        ("tset[minilm].value:%", "best, roles"),
        ("roles[firefox-en-pt].role", "empty"),
        (f"{ONE}.offset:%ci", "offset_low"),
        ("mean(best[ud-ewt].model):%", "no numbers"),
        *((text, "reference") for text in ("best.value", "best[a.value", "mean(best[a].value")),
        ("sum(best[a].value)", "aggregate"),
    ],
)
def test_a_fault_names_reference_and_candidates(root: Path, reference: str, said: str) -> None:
    with refused(re.escape(re.split(r"[\[(.]", reference)[0]), said):
        cell(parse(reference, "13"), root)


def test_a_page_is_named_where_none_is_known() -> None:
    with refused("name its page"):
        parse("best[a].value")
    assert parse("13/best[a].value") == Reference("13", "best", ("a",), "value", "", "")


def test_a_table_that_changes_is_read_again(root: Path) -> None:
    assert cell(parse(f"{ONE}.value:%", "13"), root).text == "66\u00a0%"
    put(root, "13/best", BEST.replace("0.66", "0.76"))
    os.utime(root / "13" / "best.csv", ns=(1, 1))
    assert cell(parse(f"{ONE}.value:%", "13"), root).text == "76\u00a0%"
