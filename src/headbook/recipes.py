"""The models that this package trains, by name: the tables of `data/models.toml` that have a task.

One table describes one model, or a family: a field whose name stands in braces in the table's name
is a list, and every combination of its values is a model. `like` names an earlier model whose
fields are taken over, its seeds too. The first seed bears the plain name, further ones a suffix:
`-seed1`, `-seed2` ….
"""

import difflib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from headbook import paths
from headbook.text.registry import entries
from headbook.types import UserError

TRANSLATION, MASKED = "translation", "masked source language"
"""The tasks: to translate; to find hidden tokens of a parallel corpus' source side."""
SEED = re.compile(r"-seed(\d+)$")


@dataclass(frozen=True)
class Recipe:
    """One model of the catalogue: the fields of its table, and a seed.

    `family` is the table's name; `seeds` counts those that the book uses.
    """

    name: str
    family: str
    task: str
    corpus: str
    seeds: int
    fields: Mapping[str, Any]
    seed: int = 0

    def names(self) -> list[str]:
        """The names of all its seeds."""
        return [self.name, *(f"{self.name}-seed{seed}" for seed in range(1, self.seeds))]


def catalogue(file: Path | None = None) -> dict[str, Recipe]:
    """Every model trained here, in the order of the file. UserError for a wrong entry."""
    return _read(file or paths.DATA / "models.toml")


def recipe(name: str) -> Recipe:
    """The recipe of a model by its name, with the seed its suffix gives; UserError for no model."""
    known = catalogue()
    if name in known:
        return known[name]
    base, seed = SEED.sub("", name), SEED.search(name)
    if seed and base in known:
        return replace(known[base], name=name, seed=int(seed[1]))
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4) or list(known)[:3]
    raise UserError(
        f"no model that is trained here is called {name!r}: did you mean {', '.join(near)}? "
        "(`headbook models` lists all)"
    )


def is_named(name: str) -> bool:
    """Whether a model of this name, or its further seed, is trained here."""
    return SEED.sub("", name) in catalogue()


def weights_folder(name: str) -> Path:
    """Where weights that come with the book lie, for a model that has them: as a run's folder."""
    return paths.DATA / "models" / name


def select(given: Iterable[str]) -> list[str]:
    """Names of models; a family, by its table's name, stands for all its models and seeds.

    UserError for a name of neither.
    """
    found: list[str] = []
    for name in given:
        family = [each for each in catalogue().values() if each.family == name]
        if family and name not in catalogue():
            found += [seed for each in family for seed in each.names()]
        else:
            found.append(recipe(name).name)
    return list(dict.fromkeys(found))


@cache
def _read(file: Path) -> dict[str, Recipe]:
    described: dict[str, dict[str, Any]] = {}
    found: dict[str, Recipe] = {}
    for family, table in entries(file).items():
        if table.get("kind") == "released":
            continue
        varied = re.findall(r"{(\w+)}", family)
        try:
            for values in itertools.product(*(table[each] for each in varied)):
                own = table | dict(zip(varied, values, strict=True))
                words = {each: "-".join(str(own[each]).split()) for each in varied}
                like = own.pop("like", None)
                name = family.format(**words)
                described[name] = own if like is None else described[like] | own
                found[name] = _recipe(name, family, dict(described[name]))
        except (KeyError, ValueError) as error:
            raise UserError(f"{file}: the entry [{family}] is wrong ({error}): mend it") from None
    return found


def _recipe(name: str, family: str, fields: dict[str, Any]) -> Recipe:
    task, corpus, seeds = fields.pop("task"), fields.pop("corpus"), fields.pop("seeds", 1)
    if task not in (TRANSLATION, MASKED):
        raise ValueError(f"no task is called {task!r}")
    return Recipe(name, family, task, corpus, seeds, fields)
