"""Why the models of a config would be trained again, or that they are kept."""

from collections.abc import Iterator

from headbook.artefacts.model import asked_for
from headbook.runs.store import Store
from headbook.studies.config import Config


def lines(config: Config, store: Store | None = None) -> Iterator[str]:
    """One line a model: its key, and what differs from the nearest kept run."""
    store = store or Store.default()
    for run in config.models():
        asked = asked_for(run)
        differences = store.explain(asked)
        state = {True: "kept", False: "to be trained"}[differences == []]
        yield f"{run.corpus} seed {run.training.seed}: {state} ({store.folder(asked)})"
        if differences is None:
            yield "  no model is kept yet"
        for difference in differences or ():
            yield f"  {difference}"
