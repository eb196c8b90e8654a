"""The generated pages say what made the book."""

import json
import re
from pathlib import Path

import pytest
from headbook.artefacts.encoders import ENCODER
from headbook.artefacts.language import LANGUAGE
from headbook.artefacts.model import TRAINED
from headbook.artefacts.texts import PARSES
from published import plant

from headbook.publishing import pages
from headbook.publishing.notebooks import record_of
from headbook.runs.canonical import plain
from headbook.types import UserError


def test_a_bar_or_a_line_break_starts_no_new_column_or_row() -> None:
    assert pages.table(("a", "b"), [("x|y", "1\n2")]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 2 |"


def test_deviations_become_sections_with_every_field(tmp_path: Path) -> None:
    register = tmp_path / "deviations.yml"
    register.write_text("- id: D1\n  title: Shorter\n  paper: long\n  test: [a, b]\n", "utf-8")
    text = pages.deviations(register)
    assert "(deviation-D1)=\n## D1: Shorter" in text
    assert "**Paper.** long" in text
    assert "**Test.** a, b" in text


@pytest.mark.parametrize("entries", ["- id: D1\n- id: D1\n", "- title: none\n"])
def test_a_deviation_has_an_id_of_its_own(entries: str, tmp_path: Path) -> None:
    register = tmp_path / "deviations.yml"
    register.write_text(entries, "utf-8")
    with pytest.raises(UserError, match="an id of its own"):
        pages.deviations(register)


def test_status_lists_pages_versions_and_published_runs(tmp_path: Path) -> None:
    copy = tmp_path / "10_page.ipynb"
    record_of(copy).write_text(json.dumps({"profile": "quick", "seconds": 61.4}), "utf-8")
    made = {"commit": "abc", "hardware": {"cores": 2, "gpu": None}}
    plant(tmp_path / "results", "laptop", "syntactic_heads", **made)
    text = pages.status([copy, tmp_path / "11_hand.ipynb"], tmp_path / "results")
    assert "| quick | 61 |" in text
    assert "executed by hand" in text
    assert re.search(r"\| torch \| 2\.\d+", text)
    assert re.search(r"\| syntactic_heads \| (not recorded \| ){2}abc \| 2 cores, .*\|", text)


def published(results: Path, profile: str, study: str, *made: dict) -> None:
    """A study's record at a profile, with those of the trainings it read."""
    run = {"commit": "c0", "date": "2026-01-02", "hardware": {"cores": 2, "processor": "P"}}
    plant(results, profile, study, **run, runs=list(made))


def training(corpus: str, seconds: float, **hardware: object) -> dict:
    config = {"corpus": corpus, "size": {"width": 128}, "training": {"seed": 3, "updates": 800}}
    ingredients = {"stage": plain(TRAINED), "config": config}
    return {"ingredients": ingredients, "commit": "c1", "started": "2026-01-01",
            "seconds": seconds, "hardware": hardware}  # fmt: skip


def test_status_says_for_each_profile_what_ran_where_and_for_how_long(tmp_path: Path) -> None:
    """Two profiles on two machines; a training that two studies read is listed once."""
    small = training("multi30k-de", 1800.0, cores=2, processor="P", gpu=None)
    large = training("msdocs-ru", 7200.0, cores=16, processor="Q", gpu="H200")
    for study in ("10_one", "11_two"):
        published(tmp_path, "laptop", study, small)
    published(tmp_path, "full", "10_one", large)
    text = pages.status([], tmp_path)
    full, laptop = text.split("### Profile full")[1].split("### Profile laptop")
    assert "1 trainings, 2.0 hours, on H200." in full
    assert "| translation | msdocs-ru | 3 | 128 | 800 | 2026-01-01 | 2.00 | c1 | H200 |" in full
    assert full.count("| 10_one |") == 1 and "11_two" not in full and "multi30k" not in full
    assert "1 trainings, 0.5 hours, on 2 cores, P." in laptop
    assert laptop.count("| translation | multi30k-de | 3 | 128 | 800 | 2026-01-01 | 0.50 |") == 1
    assert "| 10_one |" in laptop and "| 11_two | 2026-01-02 | 1 | c0 | 2 cores, P |" in laptop
    assert "None yet." not in text


def test_status_lists_what_was_trained_of_every_kind_and_no_measurement(tmp_path: Path) -> None:
    made = training("wikitext-2", 3600.0, gpu="H200")
    ingredients = made["ingredients"]
    language = made | {"ingredients": ingredients | {"stage": plain(LANGUAGE)}}
    config = {"text": ingredients["config"], "training": ingredients["config"]["training"]}
    encoder = made | {"ingredients": {"stage": plain(ENCODER), "config": config}}
    parses = made | {"ingredients": {"stage": plain(PARSES), "config": {"parser": "p"}}}
    published(tmp_path, "laptop", "39_three", language, encoder, parses)
    text = pages.status([], tmp_path)
    assert "2 trainings, 2.0 hours, on H200." in text
    for named in ("language model", "of source text"):
        assert f"| {named} | wikitext-2 | 3 | 128 | 800 | 2026-01-01 | 1.00 | c1 | H200 |" in text
    assert "| 39_three | 2026-01-02 | 3 |" in text
    assert {TRAINED.name, LANGUAGE.name, ENCODER.name} == set(pages.TRAINED)


def test_status_without_published_runs_says_so(tmp_path: Path) -> None:
    assert "None yet." in pages.status([], tmp_path)
