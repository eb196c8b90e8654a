"""Publishing: studies computed at a profile, their tables written to data/results."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from headbook.publishing.templates import select
from headbook.runs.store import Store
from headbook.stages.model import asked_for
from headbook.studies.config import Config
from headbook.studies.results import publish


def publish_studies(names: list[str] | None, profile: str) -> Iterator[Path]:
    """Computes each named study and yields the folder its tables were written to."""
    config, store = Config(profile), Store.default()
    for template in select(names):
        study = import_module(f"headbook.studies.{template.study}")
        tables = study.compute(config, store)
        yield publish(template.name, config, tables, _made_by(config, store))


def _made_by(config: Config, store: Store) -> list[dict[str, Any]]:
    """The records of the models a profile's studies read, as far as they are kept."""
    asked = [asked_for(run) for run in config.models()]
    files = [store.folder(each) / "run.json" for each in asked if store.has(each)]
    return [json.loads(file.read_text()) for file in files]
