"""Publishing: pages computed at a profile, their tables written to data/results."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from headbook import paths
from headbook.artefacts.catalogue import name_of
from headbook.chapters.chapter import Chapter, find
from headbook.chapters.config import Config
from headbook.chapters.page import add_measured, add_model, publish_chapter
from headbook.chapters.results import add, write
from headbook.chapters.tables import model_name
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import load as ledger
from headbook.looking.load import load
from headbook.publishing.notebooks import attempt
from headbook.publishing.templates import Template, has_moved, of_profile, select
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.tables import folder
from headbook.types import UserError

TRAINED = "laptop"
PUBLISH = "publish"
"""The name of the parameters with which a page that has moved is published."""


def chosen(
    names: list[str] | None, profile: str | None, added: str | None = None
) -> list[Template]:
    """The named pages; where none is named, all that have tables at the profile.

    UserError for a named page without models trained here at a profile that trains them, and for a
    model or parameter that is `added` without pages or at such a profile.
    """
    found = select(names)
    if added and not (names and profile in (None, RELEASED)):
        raise UserError(f"name the pages that {added} is added to, and leave --profile out")
    if profile in (None, RELEASED):
        return found
    trains = {each.name: not has_moved(each) and _chapter(each).trained_here is not None
              for each in found}  # fmt: skip
    if names and (without := [name for name, here in trains.items() if not here]):
        raise UserError(f"{without[0]} has no models trained here: leave --profile {profile} out")
    return [each for each in found if trains[each.name]]


def parameters(given: Iterable[str]) -> dict[str, Any]:
    """`name=value` as parameters; a value that is no JSON is a text."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise UserError(f"--given {each!r} is no name=value, as in --given lists=3")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def published(
    pages: Iterable[Template], profile: str | None, model: str | None = None,
    given: Mapping[str, Any] | None = None,
) -> Iterator[Path]:  # fmt: skip
    """Computes each page and yields the folder its tables were written to.

    Without a profile a page with released models is published as `released`, and one of models
    trained here alone as `laptop`. With a `model`, by a name that `hb.load` knows, its rows alone
    are measured and added to those of `released`; with parameters `given`, what these alone
    measure, or this model with them. The one model of a profile that joins another is added to the
    tables of that one, by its name. Beside the tables stand the records of all runs that the page
    got from the store.
    """
    if model:
        load(model)  # A wrong name is said before anything is measured.
    for template in pages:
        if has_moved(template):
            yield _by_its_notebook(template, profile, model, given or {})
            continue
        chapter = _chapter(template)
        if model:
            asked = {**of_profile(template, RELEASED), **(given or {})}
            yield add_model(chapter, asked, model)
        elif given:
            yield add_measured(chapter, given)
        elif profile == RELEASED or not (profile or "profile" in template.parameters):
            yield publish_chapter(chapter, of_profile(template, RELEASED))
        else:
            yield _of_models_trained_here(chapter, Config(profile or TRAINED))


def _by_its_notebook(
    template: Template, profile: str | None, model: str | None, given: Mapping[str, Any]
) -> Path:
    """Runs the notebook with its parameters for publication, so that `hb.publish` writes tables.

    UserError where the notebook fails, and where it publishes nothing.
    """
    if profile not in (None, RELEASED):
        raise UserError(f"{template.name} has no models of a profile: leave --profile out")
    asked = {**of_profile(template, PUBLISH), **({"models": [model]} if model else {}), **given}
    number = template.name.partition("_")[0]
    where = folder(number)
    before = _written(where)
    (done,) = attempt(
        [template], PUBLISH, asked, 1, destination=paths.REPOSITORY / "build" / "publish",
        more=paths.to_publish(number, {**template.parameters, **asked}),
    )  # fmt: skip
    if done.failure:
        raise UserError(f"{template.name} was not published whole: {done.failure} ({done.path})")
    if _written(where) == before:
        raise UserError(f"{template.name} publishes nothing: call hb.publish(frame, '{number}/…')")
    return where


def _written(where: Path) -> int | None:
    record = where / "run.json"
    return record.stat().st_mtime_ns if record.exists() else None


def _of_models_trained_here(chapter: Chapter, config: Config) -> Path:
    store = Store.default()
    tables = chapter.trained_here(config, store)
    described = {"config": plain(config), "runs": store.records()}
    if joined := config.preset.joins:
        (run,) = config.models()
        name = name_of(run)
        for table in tables.values():
            if "model" in table:
                table["model"] = table["model"].replace(model_name(run), name)
        return add(chapter.name, joined, tables, name, {"profile": config.profile, **described})
    return write(chapter.name, config.profile, tables, described, stay=_superseded(chapter.name))


def _superseded(study: str) -> set[str]:
    """A page's claims that are published and not measured again."""
    return {each.id for each in ledger().claims if each.study == study and each.superseded}


def _chapter(template: Template) -> Chapter:
    found = find(template.name)
    if found is None:
        raise UserError(f"{template.name} has no module: see src/headbook/chapters/chapter.py")
    return found
