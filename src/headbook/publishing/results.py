"""Publishing: studies computed at a profile, their tables written to data/results."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from headbook.publishing.templates import select
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.results import publish


def publish_studies(names: list[str] | None, profile: str) -> Iterator[Path]:
    """Computes each named study and yields the folder its tables were written to.

    Beside the tables stand the records of all runs that the study got from the store.
    """
    config = Config(profile)
    for template in select(names):
        study = import_module(f"headbook.studies.{template.study}")
        store = Store.default()
        tables = study.compute(config, store)
        yield publish(template.name, config, tables, store.records())
