"""Who made the book, from CITATION.cff."""

from pathlib import Path

from headbook.publishing.citation import citation
from headbook.publishing.pages import cite

FIELDS = """\
title: "a book"
version: 1.2.0
license: MIT
authors:
  - given-names: Ada
    family-names: Byron
  - name: "others"
date-released: 2026-01-02
doi: 10.1/2
"""


def test_an_archived_copy_is_cited_by_its_doi_with_its_authors_and_year(tmp_path: Path) -> None:
    (tmp_path / "CITATION.cff").write_text(FIELDS, encoding="utf-8")
    found = citation(tmp_path / "CITATION.cff")
    assert "author = {{Ada Byron} and {others}}" in found.bibtex()
    assert "year = {2026}" in found.bibtex() and "url" not in found.bibtex()
    assert "doi = {10.1/2}" in found.bibtex() and "https://doi.org/10.1/2" in cite(found)
