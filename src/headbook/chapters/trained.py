"""Pages about models trained here: published tables are read, and a profile computes anew."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from headbook.artefacts.texts import AUTO
from headbook.chapters import PUBLISHED
from headbook.chapters.chapter import Tables, plain
from headbook.chapters.config import Config
from headbook.runs.store import Store
from headbook.types import UserError


@dataclass(frozen=True)
class Trained:
    """Trainings of a page and overrides: None is the profile's. `published` trains nothing."""

    profile: str = PUBLISHED
    corpus: str | None = None
    size: str | None = None
    updates: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Measured(Trained):
    """The same, and how many sentences are measured at most."""

    sentences: int | None = None


@dataclass(frozen=True)
class Parsed(Measured):
    """The same, and the spaCy pipeline that parses them."""

    pipeline: str = AUTO


def at_profile(
    parameters: Trained,
    store: Store,
    measured: Callable[[Config, Store], Tables],
    released: Collection[str] = (),
) -> Tables:
    """The tables that `measured` makes at the parameters' profile; none at `published`.

    Each field of the page's parameters is one of `Config`, but for those in `released`, which say
    what is measured of released models. UserError where another than these and the profile is set
    and no profile says what to train.
    """
    given = {name: value for name, value in plain(parameters).items() if name not in released}
    if given["profile"] != PUBLISHED:
        return measured(Config(**given), store)
    del given["profile"]
    defaults = plain(type(parameters)())
    if changed := [name for name, value in given.items() if value != defaults[name]]:
        raise UserError(
            f"{changed[0]} changes what is trained, and profile `{PUBLISHED}` trains nothing: "
            "give a profile too, such as quick"
        )
    return {}
