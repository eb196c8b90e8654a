"""Names everybody shares: the three kinds of attention, a head's address, a user's error."""

from dataclasses import dataclass
from enum import StrEnum

COMPARED = "application/vnd.headbook.compared+json"
"""Type of a notebook's output that says how many values were measured again, for the runner."""


class Kind(StrEnum):
    """The three kinds of attention in an encoder-decoder."""

    ENCODER = "encoder"
    DECODER = "decoder"
    CROSS = "cross"


@dataclass(frozen=True, order=True)
class HeadId:
    """One head; layer and head count from zero, `label` counts from one: L6H5, cross L2H1."""

    kind: Kind
    layer: int
    head: int

    @property
    def label(self) -> str:
        kind = "" if self.kind is Kind.ENCODER else f"{self.kind} "
        return f"{kind}L{self.layer + 1}H{self.head + 1}"


class UserError(Exception):
    """Something the user can mend: one line that names what is wrong, where, and the mend.

    The command line prints the line and exits with status 2; no stack trace is shown, nor in a
    notebook.
    """

    def _render_traceback_(self) -> list[str]:
        """IPython asks an exception for this before it formats a traceback of its own."""
        return [f"{type(self).__name__}: {self}"]
