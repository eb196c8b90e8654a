"""The table of contents: the frame, filled with the notebooks there are."""

from pathlib import Path

import pytest

from headbook import paths
from headbook.publishing import contents

FRAME = """\
format: jb-book
root: intro
parts:
- caption: first
  chapters: [file: parts/1, glob: _executed/1*]
- caption: none yet
  chapters: [file: parts/2, glob: _executed/2*]
"""


def test_a_glob_stands_for_its_notebooks_in_order_and_without_any_its_part_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_toc.yml").write_text(FRAME, encoding="utf-8")
    for name in ("12_b", "10_a", "30_c", ".13_hidden"):
        (tmp_path / f"{name}.ipynb").touch()
    monkeypatch.setattr(paths, "BOOK", tmp_path)
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    assert contents.pages() == ["intro", "parts/1", "_executed/10_a", "_executed/12_b"]
    (tmp_path / "20_d.ipynb").touch()
    assert contents.pages()[4:] == ["parts/2", "_executed/20_d"]
    assert contents.notebooks() == ["10_a", "12_b", "20_d"]


@pytest.mark.parametrize("part", sorted(paths.BOOK.glob("parts/*.md")), ids=lambda path: path.stem)
def test_an_overview_links_every_page_of_its_part(part: Path) -> None:
    text = part.read_text("utf-8")
    pages = [path.stem for path in paths.NOTEBOOKS.glob(f"{part.name[0]}*.ipynb")]
    assert pages and not [page for page in pages if f"{{doc}}`/_executed/{page}`" not in text]
