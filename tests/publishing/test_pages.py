"""The generated pages say what made the book."""

import json
import re
from pathlib import Path

from headbook.publishing import pages
from headbook.publishing.contents import record_of


def test_a_bar_or_a_line_break_starts_no_new_column_or_row() -> None:
    assert pages.table(("a", "b"), [("x|y", "1\n2")]) == "| a | b |\n| --- | --- |\n| x\\|y | 1 2 |"


def test_deviations_become_sections_with_every_field(tmp_path: Path) -> None:
    register = tmp_path / "deviations.yml"
    entry = "- id: D1\n  title: Shorter\n  paper: long\n  ours: short\n  why: time\n"
    register.write_text(entry, "utf-8")
    text = pages.deviations(register)
    assert "(deviation-D1)=\n## D1: Shorter" in text
    assert "**Paper.** long\n\n**Ours.** short\n\n**Why.** time\n" in text


def test_status_lists_pages_and_versions(tmp_path: Path) -> None:
    copy = tmp_path / "10_page.ipynb"
    made = {"parameters": {"sentences": 7}, "seconds": 61.4}
    record_of(copy).write_text(json.dumps(made), "utf-8")
    text = pages.status([copy, tmp_path / "11_hand.ipynb"])
    assert '| {"sentences": 7} | 61 |' in text and "executed by hand" in text
    assert re.search(r"\| torch \| 2\.\d+", text)
