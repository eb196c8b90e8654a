"""Packages that come with an extra: where one is missing, one line says which."""

import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires

from headbook import paths
from headbook.types import UserError

IMPORTED = {"sklearn": "scikit-learn", "google": "protobuf", "fontTools": "fonttools"}
"""Packages whose modules have another name."""


@contextmanager
def extras() -> Iterator[None]:
    """Turns a missing module of an extra into a UserError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        package = IMPORTED.get(module, module.replace("_", "-"))
        if (extra := of(package)) is None:
            raise
        raise UserError(f"{package} is not installed: {paths.install(extra)}") from None


def of(package: str) -> str | None:
    """The first extra that brings this package; None for any other."""
    for extra, needs in brought().items():
        if any(re.match(r"[\w.-]+", need)[0].lower() == package.lower() for need in needs):
            return extra
    return None


def brought() -> dict[str, list[str]]:
    """What every extra brings: by pyproject.toml in a clone, else by the installed record."""
    if paths.CLONE:
        project = tomllib.loads((paths.REPOSITORY / "pyproject.toml").read_text("utf-8"))
        return project["project"]["optional-dependencies"]
    found: dict[str, list[str]] = {}
    for line in requires("headbook") or ():
        if extra := re.search(r"extra == ['\"]([\w-]+)['\"]", line):
            found.setdefault(extra[1], []).append(line)
    return found
