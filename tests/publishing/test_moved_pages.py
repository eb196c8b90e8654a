"""Old addresses of pages lead to the pages that have their place."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from sphinx.errors import ExtensionError

from headbook import paths
from headbook.publishing.contents import notebooks

OLD, NEW = "98_old", "99_new"


def test_moved_pages_lead_to_pages_of_the_book() -> None:
    moved, pages = yaml.safe_load((paths.BOOK / "moved.yml").read_text("utf-8")), notebooks()
    assert set(moved.values()) <= set(pages) and not moved.keys() & set(pages)


def test_an_old_address_forwards_and_a_page_that_is_there_has_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(paths.BOOK / "_ext"))
    from moved_pages import lead_on

    (tmp_path / "moved.yml").write_text(f"{OLD}: {NEW}\n")
    (tmp_path / "_executed").mkdir()
    (tmp_path / "_executed" / f"{NEW}.html").touch()
    env = SimpleNamespace(found_docs={f"_executed/{NEW}"})
    builder = SimpleNamespace(format="html")
    book = SimpleNamespace(srcdir=tmp_path, outdir=tmp_path, env=env, builder=builder)
    lead_on(book, None)
    text = (tmp_path / "_executed" / f"{OLD}.html").read_text("utf-8")
    assert 'http-equiv="refresh"' in text and f"url={NEW}.html" in text
    assert f'<a href="{NEW}.html">' in text
    env.found_docs.add(f"_executed/{OLD}")
    with pytest.raises(ExtensionError, match=OLD):
        lead_on(book, None)
