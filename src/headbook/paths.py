"""Where things are. The only module that reads the environment."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CLONE = (REPOSITORY / "data" / "claims.yml").is_file()
"""Whether this is a clone of the repository; an installed package has catalogue and sample only."""
DATA = REPOSITORY / "data" if CLONE else Path(__file__).resolve().parent / "data"
NOTEBOOKS = REPOSITORY / "notebooks"
BOOK = REPOSITORY / "book"
EXECUTED = BOOK / "_executed"
RESULTS = DATA / "results"


def mirror() -> Path | None:
    """The folder named by HEADBOOK_DATA, looked in before any download; None when it is not set."""
    named = os.environ.get("HEADBOOK_DATA")
    return expanded(named) if named else None


def downloads() -> Path:
    """Where fetched corpora are kept: HEADBOOK_DOWNLOADS, or data/raw; without a clone a cache."""
    kept = DATA / "raw" if CLONE else _kept() / "downloads"
    return expanded(os.environ.get("HEADBOOK_DOWNLOADS") or kept)


def runs() -> Path:
    """The run store: HEADBOOK_RUNS, or runs/ in the repository; without a clone in a cache."""
    kept = (REPOSITORY if CLONE else _kept()) / "runs"
    return expanded(os.environ.get("HEADBOOK_RUNS") or kept)


def _kept() -> Path:
    """The user's folder for files that programs fetch and compute."""
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "headbook"


def install(extra: str) -> str:
    """The command that installs one of the package's extras, in a clone or elsewhere."""
    where = f"-c constraints.txt -e '.[{extra}]'" if CLONE else f"'headbook[{extra}]'"
    return f"python -m pip install {where}"


def repository_address() -> str:
    """HEADBOOK_REPOSITORY, the address of a published fork; empty where it is not set."""
    return os.environ.get("HEADBOOK_REPOSITORY", "")


def publishing() -> dict[str, Any] | None:
    """Page and parameters of the publication that this process is part of; None without one.

    HEADBOOK_PUBLISHING, which `headbook publish` sets for the notebook that it runs.
    """
    given = os.environ.get("HEADBOOK_PUBLISHING")
    return json.loads(given) if given else None


def to_publish(page: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """The variable for a process that publishes a page's tables."""
    return {"HEADBOOK_PUBLISHING": json.dumps({"page": page, "parameters": parameters})}


def variables() -> dict[str, str]:
    """All of the environment, for a process that is started, also in another folder."""
    named = ("HEADBOOK_DATA", "HEADBOOK_DOWNLOADS", "HEADBOOK_RUNS")
    folders = {name: os.environ[name] for name in named if os.environ.get(name)}
    return {**os.environ, **{name: str(expanded(x).absolute()) for name, x in folders.items()}}


def choose_no_window() -> None:
    """Figures are drawn to files and pages: MPLBACKEND, be it right or wrong, decides nothing."""
    os.environ.pop("MPLBACKEND", None)


def expanded(given: str | Path) -> Path:
    """A path with the user's folder for `~`; that of a user whom nobody knows stays as it is."""
    return Path(os.path.expanduser(given))


def silence_profiler() -> None:
    """Torch's profiler writes nothing to the terminal, if this comes before its first start."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")


@contextmanager
def with_variables(given: Mapping[str, str]) -> Iterator[None]:
    """Within, the environment is this one, also that of processes which are started."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
