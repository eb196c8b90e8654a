"""All that a profile's pages train, apart from what is pruned, in time."""

from collections.abc import Callable, Iterable
from functools import partial

from headbook.artefacts.encoders import train_missing_encoders
from headbook.artefacts.language import train_missing_language
from headbook.artefacts.model import made_in_time, train_missing
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.regularised_runs import Candidate, Regularising, Task, is_kept, made, tuned
from headbook.training.processes import started_by_torchrun

Say = Callable[[str], None]


def train_all_missing(config: Config, store: Store, say: Say, deadline: float) -> bool:
    """Trains what the store lacks, one after the other, and says a line of each.

    Translation models first; under torchrun no others, since one process trains those. False where
    the deadline, of `time.monotonic()`, came before all were done.
    """
    given = (store, say, deadline)
    if not train_missing(config.translation_models(), *given):
        return False
    return started_by_torchrun() or (
        train_missing_language((*config.language_models(), *config.variants()), *given)
        and train_missing_encoders(config.encoder_models(), *given)
        and train_missing_regularised(config, *given)
    )


def train_missing_regularised(config: Config, store: Store, say: Say, deadline: float) -> bool:
    """Every regulariser at every strength, and what validation chose of them with further seeds."""
    if config.preset.regularising is None:
        return True
    asked = config.regularising()
    return all(_of_task(asked, task, store, say, deadline) for task in Task)


def _of_task(asked: Regularising, task: Task, store: Store, say: Say, deadline: float) -> bool:
    grid = asked.grid(task)
    if not _in_time(grid, store, say, deadline):
        return False
    chosen = tuned([made(each, store) for each in grid])
    return _in_time(asked.further(task, chosen), store, say, deadline)


def _in_time(asked: Iterable[Candidate], store: Store, say: Say, deadline: float) -> bool:
    return all(_made_in_time(each, store, say, deadline) for each in asked)


def _made_in_time(each: Candidate, store: Store, say: Say, deadline: float) -> bool:
    training = each.run.training
    name = f"{each.task}, {each.variant} {each.strength:g}, seed {training.seed}"
    make = partial(made, each, store, deadline)
    return made_in_time(name, training.updates, is_kept(each, store), make, say, deadline)
