"""The generated pages say what made the book."""

import json
import re
from pathlib import Path

import pytest

from headbook.publishing import pages
from headbook.publishing.notebooks import record_of
from headbook.types import UserError


def test_a_bar_or_a_line_break_starts_no_new_column_or_row() -> None:
    assert pages.table(("a", "b"), [("x|y", "1\n2")]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 2 |"


def test_deviations_become_sections_with_every_field(tmp_path: Path) -> None:
    register = tmp_path / "deviations.yml"
    register.write_text("- id: D1\n  title: Shorter\n  paper: long\n  test: [a, b]\n", "utf-8")
    text = pages.deviations(register)
    assert "(deviation-D1)=\n## D1: Shorter" in text
    assert "**Paper.** long" in text
    assert "**Test.** a, b" in text


@pytest.mark.parametrize("entries", ["- id: D1\n- id: D1\n", "- title: none\n"])
def test_a_deviation_has_an_id_of_its_own(entries: str, tmp_path: Path) -> None:
    register = tmp_path / "deviations.yml"
    register.write_text(entries, "utf-8")
    with pytest.raises(UserError, match="an id of its own"):
        pages.deviations(register)


def test_status_lists_pages_and_versions(tmp_path: Path) -> None:
    copy = tmp_path / "10_page.ipynb"
    made = {"parameters": {"sentences": 7}, "seconds": 61.4}
    record_of(copy).write_text(json.dumps(made), "utf-8")
    text = pages.status([copy, tmp_path / "11_hand.ipynb"])
    assert '| {"sentences": 7} | 61 |' in text and "executed by hand" in text
    assert re.search(r"\| torch \| 2\.\d+", text)
