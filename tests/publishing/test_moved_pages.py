"""Old addresses of pages lead to the pages that have their place."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from sphinx.errors import ExtensionError

from headbook import paths
from headbook.publishing.contents import notebooks

OLD, NEW = "98_old", "99_new"


@pytest.fixture
def lead_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(paths.BOOK / "_ext"))
    from moved_pages import lead_on

    return lead_on


def built(root: Path, pages: list[str], found: list[str]) -> SimpleNamespace:
    """A book with these pages, in which 98 has moved to 99."""
    (root / "moved.yml").write_text(f"{OLD}: {NEW}\n")
    (root / "_executed").mkdir()
    for name in pages:
        (root / "_executed" / f"{name}.html").write_text(name)
    env = SimpleNamespace(found_docs={f"_executed/{name}" for name in found})
    return SimpleNamespace(
        srcdir=root, outdir=root, env=env, builder=SimpleNamespace(format="html")
    )


def test_moved_pages_lead_to_pages_of_the_book() -> None:
    moved, pages = yaml.safe_load((paths.BOOK / "moved.yml").read_text("utf-8")), notebooks()
    assert set(moved.values()) <= set(pages) and not moved.keys() & set(pages)


def test_the_old_address_forwards_and_has_a_link(tmp_path: Path, lead_on) -> None:
    lead_on(built(tmp_path, [NEW], [NEW]), None)
    text = (tmp_path / "_executed" / f"{OLD}.html").read_text("utf-8")
    assert 'http-equiv="refresh"' in text and f"url={NEW}.html" in text
    assert f'<a href="{NEW}.html">' in text


def test_a_page_that_is_there_has_not_moved(tmp_path: Path, lead_on) -> None:
    with pytest.raises(ExtensionError, match=OLD):
        lead_on(built(tmp_path, [NEW, OLD], [NEW, OLD]), None)
