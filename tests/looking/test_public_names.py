"""The public names, and a function's own source on a page."""

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headbook as hb
from headbook import paths
from headbook.heads.scores import confidence
from headbook.looking.text import Text
from headbook.types import UserError


def test_no_public_name_is_hidden_by_a_part_of_the_package():
    """Importing `headbook.x` sets the attribute x of headbook to that module, unless it is kept."""
    for each in pkgutil.iter_modules(hb.__path__):
        if each.name in hb.__all__:
            import_module(f"headbook.{each.name}")
    for name in hb.__all__:
        assert isinstance(getattr(hb, name), ModuleType) == (name == "plots")
        assert inspect.getdoc(getattr(hb, name)) and name in dir(hb)
    with pytest.raises(AttributeError):
        hb.nothing  # noqa: B018


def test_a_text_is_a_function_that_gives_sentences_with_trees():
    import headbook.looking.text  # noqa: F401

    text = hb.text("ewt-sample", first=4)
    assert isinstance(text, Text) and callable(hb.text)
    assert text.sentences == tuple(tree.text for tree in text.trees)
    tree = text.trees[0]
    assert len(tree) == len(tree.forms) == len(tree.words) == len(tree.heads) == len(tree.tags)
    documented = inspect.getdoc(hb.text) + inspect.getdoc(Text)
    for name in ("sentences", "trees", "forms", "words", "heads", "relations", "tags", "parts"):
        assert f"`{name}`" in documented or name in Text.__annotations__


@pytest.mark.parametrize("function", [hb.best, hb.close, hb.attention, confidence])
def test_a_source_is_the_functions_own_and_its_place_exists(function):
    found = hb.source(function)
    name, line = found.place.split(":")
    file = paths.REPOSITORY / name
    lines = file.read_text("utf-8").split("\n")
    code = str(found).rstrip("\n").split("\n")
    assert lines[int(line) - 1 :][: len(code)] == code
    assert any(each.startswith((f"def {function.__name__}(", f"class {function.__name__}("))
               for each in code)  # fmt: skip


def test_a_source_on_a_page_links_to_its_place(monkeypatch: pytest.MonkeyPatch):
    found = hb.source(hb.shares)
    for address in ("", "https://example.org/book/"):
        monkeypatch.setenv("HEADBOOK_REPOSITORY", address)
        shown = found._repr_markdown_()
        assert f"```python\n{found}```\n" in shown and found.place in shown
        assert ("https://example.org/book/blob/" in shown) == bool(address)


@pytest.mark.parametrize("other", [len, np.mean, Path, lambda: 0])
def test_what_is_not_of_the_package_has_no_source_here(other):
    with pytest.raises(UserError) as caught:
        hb.source(other)
    assert "\n" not in str(caught.value)
