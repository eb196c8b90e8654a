"""Old addresses of pages lead to the pages that have their place."""

from pathlib import Path

import yaml

from headbook import paths
from headbook.publishing.contents import notebooks


def test_an_old_address_leads_to_a_page_of_the_book(html: Path) -> None:
    pages = notebooks()
    for old, new in yaml.safe_load((paths.BOOK / "moved.yml").read_text("utf-8")).items():
        assert new in pages and old not in pages
        text = (html / "_executed" / f"{old}.html").read_text("utf-8")
        assert 'http-equiv="refresh"' in text and f"url={new}.html" in text
