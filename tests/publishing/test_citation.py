"""Who made the book, from CITATION.cff."""

from pathlib import Path

import pytest

from headbook.publishing.citation import Citation, citation
from headbook.publishing.pages import cite

FIELDS = """\
title: "a book"
version: 1.2.0
license: MIT
authors:
  - given-names: Ada
    family-names: Byron
  - name: "others"
"""


def _read(folder: Path, more: str = "") -> Citation:
    (folder / "CITATION.cff").write_text(FIELDS + more, encoding="utf-8")
    return citation(folder / "CITATION.cff")


def test_an_archived_copy_is_cited_by_its_doi_with_its_authors_and_year(tmp_path: Path) -> None:
    found = _read(tmp_path, "date-released: 2026-01-02\ndoi: 10.1/2\n")
    assert "author = {{Ada Byron} and {others}}" in found.bibtex()
    assert "year = {2026}" in found.bibtex() and "url" not in found.bibtex()
    assert "doi = {10.1/2}" in found.bibtex() and "https://doi.org/10.1/2" in cite(found)


def test_the_repository_is_named_only_github_can_launch_and_a_fork_names_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"github.com/a/b": "a/b", "github.com/a/b.git": "a/b", "example.org/a/b": ""}
    for address, github in known.items():
        found = _read(tmp_path, f"repository-code: https://{address}\n")
        assert found.context()["headbook_github"] == github and address in cite(found)
    monkeypatch.setenv("HEADBOOK_REPOSITORY", "https://github.com/c/d")
    assert _read(tmp_path).context()["headbook_github"] == "c/d"
