"""The README's "Add a chapter", followed to the letter: four files make a page."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headbook import paths
from headbook.chapters import chapter as declared
from headbook.chapters.chapter import find
from headbook.chapters.page import open_page, publish_chapter
from headbook.claims import ledger
from headbook.runs.store import Store

BLOCK = re.compile(r"^`((?:src|notebooks|data|tests)/[^`]+)`.*?^```\w+\n(.*?)^```$", re.S | re.M)
PACKAGE, TOY = "headbook.chapters", "toybook"


def blocks() -> dict[Path, str]:
    """The files of the section by their paths."""
    readme = (paths.REPOSITORY / "README.md").read_text("utf-8")
    section = readme.partition("## Add a chapter\n")[2].partition("\n## ")[0]
    return {Path(path): text for path, text in BLOCK.findall(section)}


def cells(text: str) -> list[tuple[list[str], str]]:
    """Tags and source of a notebook's code cells; markdown has the tag `[markdown]`."""
    parts = re.split(r"^# %% ?(.*)\n", text, flags=re.M)[1:]
    return [(head.split(", "), body) for head, body in zip(parts[::2], parts[1::2], strict=True)]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The four files in a folder of their own; the package of chapters is called toybook there."""
    for path, text in blocks().items():
        below = str(path).replace("src/headbook/chapters", TOY)
        file = tmp_path / below
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("headbook.chapters.your_own_model", f"{TOY}.your_own_model"))
    for folder in (tmp_path / TOY, tmp_path / TOY / "your_own_model"):
        (folder / "__init__.py").touch()
    main = yaml.safe_load((paths.DATA / "claims.yml").read_text("utf-8"))
    (tmp_path / "data" / "claims.yml").write_text(yaml.safe_dump(main | {"claims": []}))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ledger, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(ledger, "DATA", tmp_path / "data")
    declared._modules.cache_clear()
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith(TOY)]:
        del sys.modules[name]


def test_four_files_make_a_page(repository: Path, monkeypatch: pytest.MonkeyPatch):
    assert len(blocks()) == 4
    page = find("69_number_of_heads", TOY)
    assert page is not None and page.part == "your_own_model"
    (claim,) = ledger.load().claims
    assert claim.study == page.name
    (folder,) = [publish_chapter(page, {}, repository / "results")]
    assert folder.name == page.name
    (notebook,) = (repository / "notebooks").iterdir()
    names: dict[str, object] = {}
    for tags, source in cells(notebook.read_text("utf-8")):
        if tags != ["[markdown]"]:
            opened = source.replace("open_page(69, globals())", "PAGE(globals())")
            names["PAGE"] = lambda given: open_page(
                69, {n: v for n, v in given.items() if n == "models"},
                Store(repository / "runs"), repository / "results", TOY,
            )  # fmt: skip
            exec(compile(opened, "cell", "exec"), names)
    assert names["page"].facts["most"] == "48"
    prose = "".join(
        text for tags, text in cells(notebook.read_text("utf-8")) if tags == ["[markdown]"]
    )
    assert set(re.findall(r"{glue:text}`(\w+)`", prose)) <= names["page"].facts.keys()


def test_its_test_passes(repository: Path, tmp_path: Path):
    (file,) = (repository / "tests" / "chapters").glob("test_*.py")
    sys.path.insert(0, str(file.parent))
    try:
        module = importlib.import_module(file.stem)
        for name in vars(module):
            if name.startswith("test_"):
                getattr(module, name)(tmp_path / "runs")
    finally:
        sys.path.remove(str(file.parent))
        sys.modules.pop(file.stem, None)
