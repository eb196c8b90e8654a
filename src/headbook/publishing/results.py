"""Publishing: pages computed at a profile, their tables written to data/results."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from headbook.chapters.chapter import find
from headbook.chapters.page import publish_chapter
from headbook.claims.gates import RELEASED
from headbook.publishing.templates import Template, of_profile, select
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.results import publish

TRAINED = "laptop"


def publish_studies(names: list[str] | None, profile: str | None) -> Iterator[Path]:
    """Computes each named page and yields the folder its tables were written to.

    Without a profile a chapter is published as `released`, and what reads models trained here as
    `laptop`. Beside the tables stand the records of all runs that the page got from the store.
    """
    for template in select(names):
        yield _published(template, profile)


def _published(template: Template, profile: str | None) -> Path:
    chapter = find(template.name)
    if chapter and (profile == RELEASED or not (profile or "profile" in template.parameters)):
        return publish_chapter(chapter, of_profile(template, RELEASED))
    store = Store.default()
    config = Config(profile or TRAINED)
    if chapter and "profile" in template.parameters:
        tables = chapter.compute(chapter.parameters_from({"profile": config.profile}), store)
    else:
        tables = import_module(f"headbook.studies.{template.study}").compute(config, store)
    return publish(template.name, config, tables, store.records())
