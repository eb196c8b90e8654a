"""The book's source: an executed page, what it offers, and generated pages."""

import json
import re
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headbook import tables
from headbook.claims.scorecard import current
from headbook.plots.svg import with_plain
from headbook.publishing import staging
from headbook.publishing.contents import record_of

NAME = "13_syntactic_heads"


def test_a_page_is_sourced_and_offered_with_plain_numbers(
    tmp_path: Path,
) -> None:
    drawn = with_plain('<svg viewBox="0 0 9 9"></svg>', "a b")
    output = new_output("display_data", {"text/html": drawn})
    cells = [new_markdown_cell("# 13 T\n\nText {n}`66 % <best[a].b:%>`"),
             new_code_cell("x", outputs=[output], execution_count=1)]  # fmt: skip
    nbformat.write(new_notebook(cells=cells), copy := tmp_path / f"{NAME}.ipynb")
    record_of(copy).write_text(json.dumps({"parameters": {"sentences": 7}, "seconds": 61.4}))
    staging.stage(tmp_path / "source", [copy])
    page = nbformat.read(tmp_path / "source" / "_executed" / copy.name, as_version=4)
    assert page.cells[0].source == "# 13 T\n\nText {n}`66 % <best[a].b:%>`"
    assert page.cells[1].outputs[0].data["text/html"].endswith("</div>")
    static = tmp_path / "source" / "_static"
    offered = nbformat.read(static / "notebooks" / copy.name, as_version=4)
    assert offered.cells[0].source == "# 13 T\n\nText 66 %"
    assert offered.cells[1].outputs == [output] and offered.cells[1].execution_count == 1
    end = page.cells[-1].source
    mine = [each.claim for each in current().values() if each.claim.study == NAME]
    assert mine and all(f"#{claim.id}" in end for claim in mine)
    for table, entry in tables.entries(13).items():
        assert f"13/{table}.csv" in end and (static / "results/13" / f"{table}.csv").is_file()
        assert all(made["commit"].rstrip("+") in end for made in entry["made"])
    status = (tmp_path / "source" / "_generated" / "status.md").read_text("utf-8")
    assert '| {"sentences": 7} | 61 |' in status and re.search(r"\| torch \| 2\.\d+", status)
