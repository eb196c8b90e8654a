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
  chapters:
  - file: parts/1
  - glob: _executed/1*
- caption: none yet
  chapters:
  - file: parts/2
  - glob: _executed/2*
- caption: about
  chapters:
  - file: references
"""


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "_toc.yml").write_text(FRAME, encoding="utf-8")
    for name in ("12_b", "10_a", "30_c", ".13_hidden"):
        (tmp_path / f"{name}.ipynb").touch()
    monkeypatch.setattr(paths, "BOOK", tmp_path)
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    return tmp_path


def test_a_glob_stands_for_the_notebooks_of_its_part_in_order(frame: Path) -> None:
    assert contents.pages() == [
        "intro",
        "parts/1",
        "_executed/10_a",
        "_executed/12_b",
        "references",
    ]
    assert contents.notebooks() == ["10_a", "12_b"]


def test_a_part_without_notebooks_is_left_out_until_it_has_one(frame: Path) -> None:
    assert [part["caption"] for part in contents.contents()["parts"]] == ["first", "about"]
    (frame / "20_d.ipynb").touch()
    assert "parts/2" in contents.pages()


@pytest.mark.parametrize("part", sorted(paths.BOOK.glob("parts/*.md")), ids=lambda path: path.stem)
def test_an_overview_links_every_page_of_its_part(part: Path) -> None:
    text = part.read_text("utf-8")
    pages = [path.stem for path in paths.NOTEBOOKS.glob(f"{part.name[0]}*.ipynb")]
    assert pages and not [page for page in pages if f"{{doc}}`/_executed/{page}`" not in text]
