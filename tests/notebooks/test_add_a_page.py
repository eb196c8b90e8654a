"""The README's "Add a page", followed to the letter: a notebook and a claim make a page."""

import re
from pathlib import Path

import pytest
import yaml

from headbook import paths, results
from headbook.book.numbers import rewritten
from headbook.claims import cells, ledger
from headbook.claims.rule import Outcome, judge
from headbook.claims.verdict import NUMBERS

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.S | re.M)


def section() -> dict[str, str]:
    """The blocks of the section by their language."""
    readme = (paths.REPOSITORY / "README.md").read_text("utf-8")
    return dict(BLOCK.findall(readme.partition("## Add a page\n")[2].partition("\n## ")[0]))


def notebook() -> list[tuple[bool, str]]:
    """Whether a cell is text, and its source."""
    parts = re.split(r"^# %% ?(.*)\n", section()["python"], flags=re.M)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [("[markdown]" in head, source) for head, source in pairs]


def test_a_notebook_and_a_claim_make_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, object] = {}
    for is_text, source in notebook():
        if not is_text:
            exec(compile(source, "cell", "exec"), names)
    frame = names["found"]
    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    results._put(frame, "69", "heads", ["model"], {})
    (entry,) = yaml.safe_load(section()["yaml"])["claims"]
    claim = ledger._claim(entry, "README.md")
    (row,) = cells.rows(claim, tmp_path)
    numbers = {name: float(row[name]) for name in NUMBERS}
    assert numbers["value"] == 48 and judge(claim.rule, numbers) is Outcome.PASS
    (text,) = [source for is_text, source in notebook() if is_text and "Answer" in source]
    text = re.sub(r"^# ?", "", text, flags=re.M).replace("{n}`<", "{n}`? <")
    shown = rewritten(text, "69", {"toy-eight-heads": "replicated"}, tmp_path)
    assert "48 <heads[firefox-en-pt].count:n>" in shown and "toy-eight-heads: replicated" in shown
