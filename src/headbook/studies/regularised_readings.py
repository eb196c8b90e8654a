"""What notebook 36 reads of one model. Kept: the models are dozens, and a kill shall lose one."""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from safetensors.torch import load_file, save_file

from headbook.corpora.batches import Batch, in_order
from headbook.runs.store import Ingredients, Stage, Store
from headbook.studies.config import Config
from headbook.studies.regularised_measures import diversity_rows, term_rows
from headbook.studies.regularised_runs import Made, Task
from headbook.studies.removed_heads import without_heads
from headbook.studies.results import Tables
from headbook.training.scoring import Losses

READING = Stage("reading", version=1)
PROBE = {Task.TRANSLATION: 100, Task.LANGUAGE: 8}
"""Of validation text, on which diversity is measured: pairs, or segments."""
LOST = {Task.TRANSLATION: 300, Task.LANGUAGE: 32}
"""Of validation text, on which models lose their heads."""
LEVELS = (0.0, 0.25, 0.5, 0.75)
TABLES = ("diversity", "terms", "removed")


@dataclass(frozen=True)
class ReadingRun:
    """How much validation text, in pairs or segments, and which shares of heads are closed."""

    probe: int
    lost: int
    orders: int
    levels: tuple[float, ...] = LEVELS


@dataclass(frozen=True, eq=False)
class Reading:
    """One model: its losses on test text, and TABLES with the columns that tell models apart."""

    made: Made
    losses: Losses
    tables: Tables

    @property
    def test_nats(self) -> float:
        """Cross-entropy a token on the first test set, or on the test text."""
        return self.losses.mean

    @property
    def perplexity(self) -> float:
        """A piece, on the test text; NaN of a translation model."""
        return (
            float("nan") if self.made.asked.task is Task.TRANSLATION else math.exp(self.test_nats)
        )


def asked_of(each: Made, config: Config) -> ReadingRun:
    """What a config reads of a model; fewer sentences where the user asks for so many."""
    task, few = each.asked.task, None
    if task is Task.TRANSLATION:
        few = config.sentence_count
    return ReadingRun(few or PROBE[task], few or LOST[task], config.preset.pruning.orders)


def reading(each: Made, run: ReadingRun, store: Store) -> Reading:
    """From the store, or read now."""
    made_by = each.model.asked
    asked = Ingredients(READING, run, {"model": made_by.key}, made_by.policy)
    folder = store.get(asked, lambda aside: _read(each, run, aside))
    kept = load_file(folder / "losses.safetensors")
    tables = {
        name: pd.read_csv(folder / f"{name}.csv").assign(**each.asked.labels) for name in TABLES
    }
    return Reading(each, Losses(kept["nats"], kept["tokens"]), tables)


def _read(each: Made, run: ReadingRun, folder: Path) -> None:
    model, losses = each.model.model(), each.test_losses()
    pairs = each.valid_sample(run.lost)
    rows = {
        "diversity": diversity_rows(model, each.kinds, probe(each, run)),
        "terms": term_rows(model, each.kinds, probe(each, run)),
        "removed": without_heads(model, lambda: each.nats(model, pairs), run.levels, run.orders,
                                 each.asked.variant),
    }  # fmt: skip
    for name, found in rows.items():
        pd.DataFrame(found).to_csv(folder / f"{name}.csv", index=False)
    save_file({"nats": losses.nats, "tokens": losses.tokens}, folder / "losses.safetensors")


def probe(each: Made, run: ReadingRun) -> list[Batch]:
    """The validation text on which diversity is measured."""
    return list(in_order(each.valid_sample(run.probe), each.asked.run.training.tokens))


def diversity_untrained(each: Made, run: ReadingRun) -> pd.DataFrame:
    """As in a reading, of the model before its first update."""
    rows = diversity_rows(each.model.untrained(), each.kinds, probe(each, run))
    return pd.DataFrame(rows).assign(**each.asked.labels)
