"""The models that this package trains, by name: those of `data/models.toml` with a task.

One table describes one model, or a family: a field whose name stands in braces in the table's name
is a list, and every combination of its values is a model. `like` names an earlier model whose
fields are taken over, its seeds too. The first seed bears the plain name, further ones a suffix:
`-seed1`, `-seed2` ….
"""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from headbook import paths
from headbook.artefacts.model import Size
from headbook.artefacts.recipe import SIZES, Recipe, Run, Sharing, Task
from headbook.artefacts.watching import Watched, WatchedAsRun
from headbook.corpora.registry import entries
from headbook.models.decoding import Search
from headbook.models.drop_head import DropHeadSchedule
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.types import UserError

SEED = re.compile(r"-seed(\d+)$")
TRAINING = {field.name for field in fields(TrainingConfig)} - {"seed"}
WATCHED = {"watched_segments": "segments", "watched_every": "every"}
KINDS = (TRAINED, YOUNG) = ("trained here", "young")
"""Kinds of evidence: released, trained here until it converges, small and stopped early."""


@dataclass(frozen=True)
class Named:
    """One model of the catalogue with its first seed; `seeds` counts those the book uses."""

    name: str
    family: str
    kind: str
    seeds: int
    recipe: Recipe

    def names(self) -> list[str]:
        """The names of all its seeds."""
        return [self.name, *(f"{self.name}-seed{seed}" for seed in range(1, self.seeds))]


def catalogue(file: Path | None = None) -> dict[str, Named]:
    """Every model trained here, in the order of the file. UserError for a wrong entry."""
    return _read(file or paths.DATA / "models.toml")


def recipe(name: str) -> Recipe:
    """The recipe of a model by its name, with the seed its suffix gives; UserError for no model."""
    known = catalogue()
    if name in known:
        return known[name].recipe
    base, seed = SEED.sub("", name), SEED.search(name)
    if seed and base in known:
        return known[base].recipe.with_seed(int(seed[1]))
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.4) or list(known)[:3]
    raise UserError(
        f"no model that is trained here is called {name!r}: did you mean {', '.join(near)}? "
        "(`headbook models` lists all)"
    )


def kind_of(name: str) -> str:
    """The kind of evidence that the model is, one of KINDS."""
    return catalogue()[SEED.sub("", name)].kind


def weights_folder(name: str) -> Path:
    """Where weights that come with the book lie, for a model that has them: as a run's folder."""
    return paths.DATA / "models" / name


def is_named(name: str) -> bool:
    """Whether a model of this name, or its further seed, is trained here."""
    return SEED.sub("", name) in catalogue()


def select(given: Iterable[str]) -> list[str]:
    """Names of models; a family, by its table's name, stands for all its models and seeds.

    UserError for a name of neither.
    """
    families = {each.family for each in catalogue().values()}
    found: list[str] = []
    for name in given:
        if name in families and name not in catalogue():
            found += [seed for each in members(name) for seed in seeds(each)]
        else:
            recipe(name)
            found.append(name)
    return list(dict.fromkeys(found))


def run(name: str) -> Run:
    """The run of one model."""
    return recipe(name).run


def name_of(wanted: Run) -> str:
    """The name of the model that this run trains; UserError where the catalogue has none."""
    for name, each in catalogue().items():
        if each.recipe.run == wanted:
            return name
    raise UserError("this training has no name: add it to data/models.toml")


def runs(*names: str) -> tuple[Run, ...]:
    """The runs of several models."""
    return tuple(map(run, names))


def seeds(name: str) -> list[str]:
    """The names of all seeds of a model that the book uses."""
    return catalogue()[name].names()


def members(family: str) -> list[str]:
    """The names of the models of one table, by the table's name, without further seeds."""
    return [name for name, each in catalogue().items() if each.family == family]


@cache
def _read(file: Path) -> dict[str, Named]:
    described: dict[str, dict[str, Any]] = {}
    found: dict[str, Named] = {}
    for family, table in entries(file).items():
        if table.get("kind") == "released":
            continue
        try:
            for name, fields_of in _expanded(family, table, described):
                described[name] = fields_of
                found[name] = _named(name, family, dict(fields_of))
        except (TypeError, KeyError, ValueError, UserError) as error:
            raise UserError(f"{file}: the entry [{family}] is wrong ({error}): mend it") from None
    return found


def _expanded(
    family: str, table: dict[str, Any], known: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and fields of every model of a table."""
    varied = re.findall(r"{(\w+)}", family)
    for values in itertools.product(*(table[each] for each in varied)):
        chosen = dict(zip(varied, values, strict=True))
        own = table | chosen
        like = own.pop("like", None)
        if like is not None and like not in known:
            raise ValueError(f"like = {like!r} names no model above it")
        inherited = {} if like is None else known[like]
        name = family.format(**{each: _short(value) for each, value in chosen.items()})
        yield name, inherited | own


def _short(value: object) -> str:
    """A value in a name: its words joined by hyphens."""
    return "-".join(str(value).split())


def _named(name: str, family: str, table: dict[str, Any]) -> Named:
    kind, count = table.pop("kind"), table.pop("seeds", 1)
    if kind not in KINDS:
        raise ValueError(f"no kind of model is called {kind!r}")
    return Named(name, family, kind, count, _recipe(table))


def _recipe(table: dict[str, Any]) -> Recipe:
    """TypeError for a field that there is not, KeyError for one that is missing."""
    task = Task(table.pop("task"))
    how = training(_picked(table, TRAINING))
    return Recipe(
        task, table.pop("corpus"), _size(table), table.pop("vocabulary"), table.pop("dropout"),
        how, search=Search(**_picked(table, ("beam", "longest"))), watched=_watched(task, table),
        drop_head=_drop_head(how, table), sharing=_sharing(table), **table,
    )  # fmt: skip


def _picked(table: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """These fields of the table, taken out of it."""
    return {name: table.pop(name) for name in sorted(names) if name in table}


def training(given: Mapping[str, Any]) -> TrainingConfig:
    """A training as a file describes it; TypeError for a field that there is not.

    `like` names a model whose training's fields are taken over.
    """
    found = dict(given)
    like = found.pop("like", None)
    if "precision" in found:
        found["precision"] = Precision(found["precision"])
    if "betas" in found:
        found["betas"] = tuple(found["betas"])
    return replace(recipe(like).training, **found) if like else TrainingConfig(**found)


def _size(table: dict[str, Any]) -> Size:
    """By name, or as [layers, width, feed-forward width, heads]; of another width or number."""
    size = table.pop("size")
    shape = SIZES[size] if isinstance(size, str) else Size(*size)
    width, heads = table.pop("width", shape.width), table.pop("heads", shape.heads)
    return Size(shape.layers, width, shape.feed_forward * width // shape.width, heads)


def _watched(task: Task, table: dict[str, Any]) -> Watched:
    kind = WatchedAsRun if task is Task.PUBLISHED else Watched
    return kind(**{WATCHED[name]: value for name, value in _picked(table, WATCHED).items()})


def turn_of(training: TrainingConfig) -> float:
    """Where a V of DropHead turns, as a share of the updates: at the end of the warm-up.

    A training that ends in its warm-up turns in the middle.
    """
    return min(training.warmup / training.updates, 0.5)


def _drop_head(training: TrainingConfig, table: dict[str, Any]) -> DropHeadSchedule | None:
    """One rate, or the same at both ends of a V."""
    rate, schedule = table.pop("drop_head", None), table.pop("schedule", "constant")
    if rate is None:
        return None
    if schedule not in ("constant", "v"):
        raise ValueError(f"no schedule of DropHead is called {schedule!r}")
    return DropHeadSchedule(rate, rate, turn_of(training) if schedule == "v" else None)


def _sharing(table: dict[str, Any]) -> Sharing | None:
    given = _picked(table, ("key_value_heads", "layer_heads"))
    if not table.pop("sharing", bool(given)):
        return None
    if "layer_heads" in given:
        given["layer_heads"] = tuple(given["layer_heads"])
    return Sharing(**given)
