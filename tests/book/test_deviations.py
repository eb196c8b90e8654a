"""The register of deviations is whole, and what the book cites is in the bibliography."""

import re

import yaml

from headbook.claims.ledger import load
from headbook.paths import BOOK, NOTEBOOKS

FIELDS = ("id", "title", "paper", "ours", "why")
REGISTER = yaml.safe_load((BOOK / "deviations.yml").read_text(encoding="utf-8"))


def test_every_entry_is_whole_and_has_an_id_of_its_own():
    for entry in REGISTER:
        assert tuple(entry) == FIELDS and all(text.strip() for text in entry.values())
    assert len({entry["id"] for entry in REGISTER}) == len(REGISTER)


def test_a_limit_leads_to_an_entry_that_is_there():
    text = "".join(page.read_text(encoding="utf-8") for page in NOTEBOOKS.glob("*.ipynb"))
    named = set(re.findall(r"<deviation-([\w-]+)>", text))
    assert named and named <= {entry["id"] for entry in REGISTER}


def test_every_citation_is_in_the_bibliography():
    known = set(re.findall(r"@\w+\{(\w+),", (BOOK / "references.bib").read_text("utf-8")))
    pages = [BOOK / "deviations.yml", BOOK / "intro.md", *sorted((BOOK / "parts").glob("*.md"))]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    cited = {
        key for keys in re.findall(r"\{cite(?::t)?\}`([^`]+)`", text) for key in keys.split(",")
    }
    assert cited and cited <= known
    assert set(load().works) - {"headbook"} <= known  # our own questions are cited nowhere
