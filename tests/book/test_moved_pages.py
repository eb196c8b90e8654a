"""Old addresses of pages lead to the pages that have their place."""

from pathlib import Path

import yaml

from headbook import paths
from headbook.publishing.contents import notebooks

MOVED = yaml.safe_load((paths.BOOK / "moved.yml").read_text("utf-8"))


def test_moved_pages_lead_to_pages_of_the_book() -> None:
    assert {*MOVED.values()} <= {*notebooks()} and not MOVED.keys() & {*notebooks()}


def test_an_old_address_forwards(html: Path) -> None:
    for old, new in MOVED.items():
        text = (html / "_executed" / f"{old}.html").read_text("utf-8")
        assert 'http-equiv="refresh"' in text and f"url={new}.html" in text
