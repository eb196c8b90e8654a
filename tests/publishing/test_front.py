"""The front page: its counts are the scorecard's, and its numbers are references."""

import re

import yaml

from headbook import paths
from headbook.claims import scorecard
from headbook.publishing import front


def test_every_number_of_the_front_page_is_computed() -> None:
    text = (paths.BOOK / "intro.md").read_text("utf-8")
    filled = front.filled(text, scorecard.current())
    values = yaml.safe_load(filled.split("---\n")[1])["myst"]["substitutions"]
    assert set(values) >= set(re.findall(r"{{ (\w+) }}", text))
    shown = values["strip"].count("<a href=")
    counted = [values[mark] for mark in ("absent", "inconclusive")]
    assert shown == int(values["claims"]) > sum(map(int, counted)) > 0
