"""Errors of a user on one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from headbook.extras import extras
from headbook.types import UserError


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Reports user errors on one line and exits with status 2."""
    try:
        with extras():
            yield
    except UserError as error:
        line = " ".join(str(error).splitlines())
        typer.secho(f"headbook: {line}", err=True, fg="red")
        raise typer.Exit(2) from None


class Commands(TyperGroup):
    """A group of commands that report a user's mistakes so."""

    def invoke(self, ctx: Any) -> Any:
        with one_line_errors():
            return super().invoke(ctx)
