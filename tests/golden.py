"""Golden numbers: what a stage or a measure gave when its version was last raised.

Numbers that move without a new version would stand under keys of the old ones. Where they are meant
to move, the version is raised, and `PYTHONPATH=tests python tests/artefacts/test_<name>.py` writes
the file anew; so it does, without a new version, where the untrained model itself is another.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

Versions = int | Mapping[str, int]


@dataclass(frozen=True)
class Golden:
    """The file golden_<name>.json: numbers in lists and dictionaries, and their version."""

    name: str
    relative: float = 1e-4  # processors sum in other orders
    absolute: float = 0.0

    @property
    def file(self) -> Path:
        return Path(__file__).parent / "artefacts" / f"golden_{self.name}.json"

    @property
    def numbers(self) -> Any:
        return json.loads(self.file.read_text())["numbers"]

    def check(self, found: Any, version: Versions) -> None:
        """AssertionError where a number moved, or the version did without them."""
        kept = json.loads(self.file.read_text())
        assert kept["version"] == version and self.alike(found, kept["numbers"]), (
            f"raise the version of what was changed, then write {self.file.name} anew: {found}, "
            f"kept at version {kept['version']}: {kept['numbers']}"
        )

    def alike(self, one: Any, other: Any) -> bool:
        if isinstance(one, Mapping):
            return one.keys() == other.keys() and all(self.alike(one[n], other[n]) for n in one)
        if isinstance(one, list | tuple):
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(self.alike(*pair) for pair in pairs)
        return one == pytest.approx(other, rel=self.relative, abs=self.absolute, nan_ok=True)

    def write(self, measure: Callable[[Path], Any], version: Callable[[Any], Versions]) -> None:
        """Measures in a folder of its own and writes the file."""
        with TemporaryDirectory() as folder:
            found = measure(Path(folder))
        kept = {"version": version(found), "numbers": found}
        self.file.write_text(json.dumps(kept, indent=1) + "\n")
