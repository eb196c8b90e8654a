"""Declarations of a page's module, and finding the modules.

A chapter is a module `chapters/<part>/<page>.py` with

- `NUMBER`, `TITLE` (the question) and `WORK` (a key of the ledger's works);
- `Parameters`, a frozen dataclass of those parameters that the page reads, each with a default;
- `compute(parameters, store) -> dict[str, DataFrame]`, which measures and draws nothing;
- `facts(tables) -> dict[str, str | float]`, the numbers of the prose, formatted;
- `KEYS`, the columns that say which measurement a row belongs to (a model on a text, mostly): rows
  measured anew are compared with published rows of the same keys;
- optionally `RECIPES`, the models of ours that it reads;
- optionally `trained_here(config, store) -> dict[str, DataFrame]`, tables of models trained here
  at a profile, which `headbook publish --profile` writes. It may stand in a module of its own,
  `_trained_<page>.py` beside the page's.

Its notebook and its results are called `<NUMBER>_<page>`.
"""

import json
import pkgutil
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pandas as pd

from headbook.types import UserError

Tables = dict[str, pd.DataFrame]
Facts = dict[str, str | float]
DECLARED = ("NUMBER", "TITLE", "WORK", "KEYS", "Parameters", "compute", "facts")
HOME = "headbook.chapters"
SUBJECTS = ("models", "texts")
"""Parameters without which there is nothing to measure."""
NOTEBOOK_NAMES = {"In", "Out", "exit", "quit", "open", "get_ipython"}
"""Names that IPython itself adds to a notebook."""


@dataclass(frozen=True)
class Chapter:
    """One page, as its module declares it."""

    name: str
    part: str
    number: int
    title: str
    work: str
    keys: tuple[str, ...]
    parameters: type
    compute: Callable[[Any, Any], Tables]
    facts: Callable[[Tables], Facts]
    recipes: tuple[Any, ...] = ()

    @property
    def trained_here(self) -> Callable[[Any, Any], Tables] | None:
        """The function that makes tables of models trained here; None for a page without any."""
        name = self.compute.__module__
        part, _, page = name.rpartition(".")
        beside = f"{part}._trained_{page}"
        module = import_module(beside if find_spec(beside) else name)
        return getattr(module, "trained_here", None)

    def parameters_from(self, given: Mapping[str, Any]) -> Any:
        """The page's parameters with these set.

        UserError for an unknown name, a wrong kind, a negative number, or models or texts that are
        none.
        """
        hints = get_type_hints(self.parameters)
        for name in given:
            if name not in hints:
                near = get_close_matches(name, hints, n=1)
                meant = f", did you mean {near[0]!r}" if near else ""
                raise UserError(
                    f"page {self.number} has no parameter {name!r}{meant}; "
                    f"it knows {', '.join(hints)}"
                )
        values = {n: _value(n, v, hints[n]) for n, v in given.items()}
        for name in SUBJECTS:
            if values.get(name) == () and getattr(self.parameters, name):
                raise UserError(f"{name} is empty: page {self.number} needs one or more")
        return self.parameters(**values)


def chapters(home: str = HOME) -> list[Chapter]:
    """Every chapter of the package, by number; UserError where two share one."""
    found = sorted((_declared(module) for module in _modules(home)), key=lambda each: each.number)
    numbers = [each.number for each in found]
    if twice := {number for number in numbers if numbers.count(number) > 1}:
        raise UserError(f"two chapters are number {min(twice)}: give one of them another NUMBER")
    return found


def find(name: str | int, home: str = HOME) -> Chapter | None:
    """The chapter of that number, or of a notebook's name (`13_syntactic_heads`); None without.

    Of the modules only that one is imported.
    """
    module = module_of(name, home)
    return None if module is None else _declared(module)


def module_of(name: str | int, home: str = HOME) -> str | None:
    """The full name of the chapter's module, which is read and not imported; None without one."""
    for module, number in _numbers(home).items():
        if name in (number, f"{number:02d}_{module.rpartition('.')[2]}"):
            return module
    return None


def _numbers(home: str) -> Mapping[str, int]:
    """Number of each module, as its line `NUMBER = 13` states it."""
    found = {}
    for module in _modules(home):
        _, part, page = module.rsplit(".", 2)
        source = Path(import_module(home).__path__[0], part, f"{page}.py")
        if stated := re.search(r"^NUMBER = (\d+)$", source.read_text("utf-8"), re.MULTILINE):
            found[module] = int(stated[1])
    return found


@cache
def _modules(home: str) -> tuple[str, ...]:
    """Full names of the modules in the packages of `home`; those with a leading _ are shared."""
    parts = [each.name for each in pkgutil.iter_modules(import_module(home).__path__) if each.ispkg]
    return tuple(
        f"{home}.{part}.{page.name}"
        for part in parts
        for page in pkgutil.iter_modules(import_module(f"{home}.{part}").__path__)
        if not page.name.startswith("_")
    )


def _declared(name: str) -> Chapter:
    module: ModuleType = import_module(name)
    if missing := [each for each in DECLARED if not hasattr(module, each)]:
        raise UserError(f"chapter {name} does not declare {', '.join(missing)}")
    _, part, page = name.rsplit(".", 2)
    return Chapter(
        f"{module.NUMBER:02d}_{page}", part, module.NUMBER, module.TITLE, module.WORK,
        tuple(module.KEYS), module.Parameters, module.compute, module.facts,
        tuple(getattr(module, "RECIPES", ())),
    )  # fmt: skip


def given_in(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The values among a notebook's names: neither modules nor what can be called."""
    return {
        name: value
        for name, value in namespace.items()
        if not (name.startswith("_") or name in NOTEBOOK_NAMES)
        and not (isinstance(value, types.ModuleType) or callable(value))
    }


def _value(name: str, value: Any, hint: Any) -> Any:
    """The value as the dataclass has it: a list of names as a tuple, also where it comes as text.

    Papermill's -p gives `["a", "b"]` as text, and one name as a text of its own.
    """
    if tuple in (hint, getattr(hint, "__origin__", None)):
        if isinstance(value, str):
            value = _listed(name, value)
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise UserError(f"{name} is {value!r}; give a list of names")
        return tuple(value)
    kinds = get_args(hint) or (hint,)
    if (isinstance(value, bool) and bool not in kinds) or not isinstance(value, kinds):
        wanted = " or ".join(kind.__name__.removesuffix("Type") for kind in kinds)
        raise UserError(f"{name} is {value!r}; give {wanted}")
    if isinstance(value, int) and value < 0:
        raise UserError(f"{name} is {value}; give 0 or more")
    return value


def _listed(name: str, text: str) -> list[str]:
    if not text.lstrip().startswith("["):
        return [text]
    try:
        return json.loads(text)
    except ValueError:
        raise UserError(f"{name} is {text!r}; give a list as JSON has it") from None


def plain(parameters: Any) -> dict[str, Any]:
    """The parameters as JSON has them."""
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}
    return {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
