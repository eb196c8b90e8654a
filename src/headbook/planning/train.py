"""Training by name, and all that a profile's pages train apart from what is pruned, in time."""

from collections.abc import Callable, Sequence

from headbook.artefacts.catalogue import runs
from headbook.artefacts.model import ModelRun
from headbook.artefacts.regularising import Regularising, Task, made, tuned
from headbook.artefacts.trained import train_missing
from headbook.chapters.config import Config
from headbook.runs.store import Store
from headbook.training.processes import started_by_torchrun
from headbook.types import UserError

Say = Callable[[str], None]


def train_all_missing(config: Config, store: Store, say: Say, deadline: float) -> bool:
    """Trains what the store lacks, one after the other, and says a line of each.

    Translation models first; under torchrun no others, since one process trains those. False where
    the deadline, of `time.monotonic()`, came before all were done.
    """
    given = (store, say, deadline)
    if not train_missing(config.translation_models(), *given):
        return False
    others = (*config.language_models(), *config.variants(), *config.encoder_models(),
              *config.masked_models())  # fmt: skip
    return started_by_torchrun() or (
        train_missing(others, *given) and train_missing_regularised(config, *given)
    )


def train_named(names: Sequence[str], store: Store, say: Say, deadline: float) -> bool:
    """Trains models of the catalogue that the store lacks, in the order of the names.

    UserError where torchrun shares the training of another task than translation.
    """
    asked = runs(*names)
    alone = [n for n, run in zip(names, asked, strict=True) if not isinstance(run, ModelRun)]
    if alone and started_by_torchrun():
        raise UserError(f"{alone[0]} is trained by one process: start `headbook train` alone")
    return train_missing(asked, store, say, deadline)


def train_missing_regularised(config: Config, store: Store, say: Say, deadline: float) -> bool:
    """Every regulariser at every strength, and what validation chose of them with further seeds."""
    if config.preset.regularising is None:
        return True
    asked = config.regularising()
    return all(_of_task(asked, task, store, say, deadline) for task in Task)


def _of_task(asked: Regularising, task: Task, store: Store, say: Say, deadline: float) -> bool:
    grid = asked.grid(task)
    if not train_missing(grid, store, say, deadline):
        return False
    chosen = tuned([made(each, store) for each in grid])
    return train_missing(asked.further(task, chosen), store, say, deadline)
