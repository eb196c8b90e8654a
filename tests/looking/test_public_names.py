"""The public names, and a function's own source on a page."""

import inspect
import pkgutil
from importlib import import_module
from types import ModuleType

import pytest

import headbook as hb
from headbook import paths


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


@pytest.mark.parametrize("address", ["", "https://example.org/book/"])
def test_a_source_is_the_functions_own_and_links_to_its_place(address: str, monkeypatch):
    found = hb.source(hb.close)
    name, line = found.place.split(":")
    lines = (paths.REPOSITORY / name).read_text("utf-8").split("\n")
    code = str(found).rstrip("\n").split("\n")
    assert lines[int(line) - 1 :][: len(code)] == code and "def close(" in str(found)
    monkeypatch.setenv("HEADBOOK_REPOSITORY", address)
    assert ("https://example.org/book/blob/" in found._repr_markdown_()) == bool(address)
