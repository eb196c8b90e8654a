"""The public names, and a function's own source on a page."""

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

import headbook as hb
from headbook import paths
from headbook.heads.scores import confidence
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


@pytest.mark.parametrize("function", [hb.best, hb.close, confidence])
def test_a_source_is_the_functions_own_and_its_place_exists(function):
    found = hb.source(function)
    name, line = found.place.split(":")
    lines = (paths.REPOSITORY / name).read_text("utf-8").split("\n")
    code = str(found).rstrip("\n").split("\n")
    assert lines[int(line) - 1 :][: len(code)] == code
    assert any(f" {function.__name__}(" in each for each in code)


def test_a_source_on_a_page_links_to_its_place(monkeypatch: pytest.MonkeyPatch):
    found = hb.source(hb.shares)
    for address in ("", "https://example.org/book/"):
        monkeypatch.setenv("HEADBOOK_REPOSITORY", address)
        shown = found._repr_markdown_()
        assert f"```python\n{found}```\n" in shown and found.place in shown
        assert ("https://example.org/book/blob/" in shown) == bool(address)


def test_what_is_not_of_the_package_has_no_source_here():
    for other in (len, np.mean, lambda: 0):
        with pytest.raises(UserError):
            hb.source(other)
