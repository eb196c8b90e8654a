"""Why models would be trained again, or that they are kept."""

from collections.abc import Iterable, Iterator

from headbook.artefacts.trained import Trainable
from headbook.runs.store import Store


def lines(runs: Iterable[Trainable], store: Store | None = None) -> Iterator[str]:
    """One line per model: its key, and what differs from the nearest kept run."""
    store = store or Store.default()
    for run in runs:
        asked = run.ingredients()
        differences = store.explain(asked)
        state = "kept" if differences == [] else "to be trained"
        yield f"{run.label}: {state} ({store.folder(asked)})"
        if differences is None:
            yield "  no model is kept yet"
        for difference in differences or ():
            yield f"  {difference}"
