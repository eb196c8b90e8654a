"""`hb.source`: a function of the package, printed on a page."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headbook import paths
from headbook.types import UserError


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
        where = f"`{self.place}`"
        if address:
            where = f"[{where}]({address}/blob/main/{name}#L{line})"
        return f"```python\n{self.code}```\n\nFrom the package: {where}\n"


def source(function: Callable) -> Source:
    """The source code of a function or class of the package, with its file and line.

    UserError for what the package does not define.
    """
    own = inspect.unwrap(function)
    if not str(getattr(own, "__module__", "")).startswith("headbook."):
        raise UserError(f"{own!r} is not of the package; hb.source shows its functions and classes")
    lines, first = inspect.getsourcelines(own)
    file = Path(inspect.getsourcefile(own)).relative_to(Path(paths.__file__).parent)
    return Source("".join(lines), f"src/headbook/{file.as_posix()}:{first}")
