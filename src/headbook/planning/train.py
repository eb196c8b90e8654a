"""Training by name, and all that a profile's pages train apart from what is pruned, in time."""

from collections.abc import Callable, Sequence

from headbook.artefacts.catalogue import runs
from headbook.artefacts.model import ModelRun
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
    return started_by_torchrun() or train_missing(others, *given)


def train_named(names: Sequence[str], store: Store, say: Say, deadline: float) -> bool:
    """Trains models of the catalogue that the store lacks, in the order of the names.

    UserError where torchrun shares the training of another task than translation.
    """
    asked = runs(*names)
    alone = [n for n, run in zip(names, asked, strict=True) if not isinstance(run, ModelRun)]
    if alone and started_by_torchrun():
        raise UserError(f"{alone[0]} is trained by one process: start `headbook train` alone")
    return train_missing(asked, store, say, deadline)
