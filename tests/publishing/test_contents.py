"""The overviews of the book's parts."""

from pathlib import Path

import pytest

from headbook import paths


@pytest.mark.parametrize("part", sorted(paths.BOOK.glob("parts/*.md")), ids=lambda path: path.stem)
def test_an_overview_links_every_page_of_its_part(part: Path) -> None:
    text = part.read_text("utf-8")
    pages = [path.stem for path in paths.NOTEBOOKS.glob(f"{part.name[0]}*.ipynb")]
    assert pages and not [page for page in pages if f"{{doc}}`/_executed/{page}`" not in text]
