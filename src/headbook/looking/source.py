"""`hb.source`: a function of the package, printed on a page."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headbook import paths


@dataclass(frozen=True)
class Source:
    """The lines of a function or class, and where they stand."""

    code: str
    place: str

    def __str__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        address = paths.repository_address().rstrip("/")
        name, _, line = self.place.partition(":")
        where = f"[{self.place}]({address}/blob/main/{name}#L{line})" if address else self.place
        return f"```python\n{self.code}```\n\n{where}\n"


def source(function: Callable) -> Source:
    """The source code of a function of the package, with its file and line, to be shown on a page.

    UserError is not raised: what has no source in Python gives Python's own TypeError or OSError.
    """
    lines, first = inspect.getsourcelines(inspect.unwrap(function))
    file = Path(inspect.getsourcefile(inspect.unwrap(function)))
    inside = file.relative_to(paths.REPOSITORY) if file.is_relative_to(paths.REPOSITORY) else file
    return Source("".join(lines), f"{inside}:{first}")
