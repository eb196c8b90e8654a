"""The front page: its numbers are those of the pages, and a false sentence stops the build."""

import re

import pytest
import yaml

from headbook import paths
from headbook.chapters.chapter import find
from headbook.chapters.page import published_tables
from headbook.publishing import front
from headbook.types import UserError


def test_a_page_without_substitutions_is_left_alone() -> None:
    assert front.filled("# Title\n\nText.\n") == "# Title\n\nText.\n"


def test_every_number_of_the_front_page_is_computed() -> None:
    text = (paths.BOOK / "intro.md").read_text("utf-8")
    filled = front.filled(text)
    values = yaml.safe_load(filled.split("---\n")[1])["myst"]["substitutions"]
    assert set(values) == set(front.PLACE.findall(text))
    chapter = find(22)
    assert values["p22_en_bleu"] == chapter.facts(published_tables(chapter.name))["en_bleu"]
    shown = values["strip"].count("<a href=")
    counted = [values[mark] for mark in ("absent", "inconclusive")]
    assert shown == int(values["claims"]) > sum(map(int, counted)) > 0
    prose = re.sub(r"{{.*?}}|`[^`]*`|\(.*?</.*?>`\)|:{3,}.*", "", text)
    assert not re.search(r"\d\d", prose), "a number is typed into the front page"


def test_a_fact_that_no_page_has_is_named() -> None:
    with pytest.raises(UserError, match="p22_nothing"):
        front.filled("{{ p22_nothing }}")


def test_a_sentence_that_is_not_true_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        front, "guards", lambda: iter([("all is well", True), ("the moon is green", False)])
    )
    with pytest.raises(UserError, match="says that the moon is green"):
        front.filled("{{ claims }}")


def test_the_sentences_hold_of_the_published_tables() -> None:
    guards = list(front.guards())
    assert len(guards) >= 6
    assert [sentence for sentence, holds in guards if not holds] == []
