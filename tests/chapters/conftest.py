"""A toy chapter in a temporary folder, all that adding a page takes."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOY = """
from dataclasses import dataclass
import pandas as pd

NUMBER = 98
TITLE, WORK, KEYS = "Does a toy count?", "voita2019", ("model",)

@dataclass(frozen=True)
class Parameters:
    models: tuple[str, ...] = ("a", "b")
    scale: float = 1.0
    sentences: int | None = None

def compute(parameters, store):
    rows = [(name, layer, parameters.scale * (layer + ord(name) / 1000))
            for name in parameters.models for layer in (1, 2)]
    return {"released": pd.DataFrame(rows, columns=["model", "layer", "value"])}

def facts(tables):
    return {"top": f"{tables['released']['value'].max():.3f}"}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of chapters with one toy in it and a module that only shares things."""
    part = tmp_path / "toybook" / "toys"
    part.mkdir(parents=True)
    for folder in (part.parent, part):
        (folder / "__init__.py").touch()
    (part / "counting.py").write_text(TOY)
    (part / "_shared.py").write_text("raise AssertionError('is no chapter')")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "toybook"
    for name in [name for name in sys.modules if name.startswith("toybook")]:
        del sys.modules[name]
