"""The register of deviations is whole, and what the book cites is in the bibliography."""

import re

import pytest
import yaml

from headbook.claims.ledger import load
from headbook.paths import BOOK

FIELDS = ("id", "title", "paper", "ours", "why")
REGISTER = yaml.safe_load((BOOK / "deviations.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", REGISTER, ids=lambda entry: entry.get("id"))
def test_an_entry_is_whole(entry):
    assert tuple(entry) == FIELDS
    assert all(isinstance(text, str) and text.strip() for text in entry.values())


def test_ids_are_unique_words():
    ids = [entry["id"] for entry in REGISTER]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", identifier) for identifier in ids)


def test_every_citation_is_in_the_bibliography():
    known = set(re.findall(r"@\w+\{(\w+),", (BOOK / "references.bib").read_text("utf-8")))
    pages = [BOOK / "deviations.yml", BOOK / "intro.md", *sorted((BOOK / "parts").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    cited = {
        key for keys in re.findall(r"\{cite(?::t)?\}`([^`]+)`", text) for key in keys.split(",")
    }
    assert cited and cited <= known
    assert set(load().works) - {"headbook"} <= known  # our own questions are cited nowhere
