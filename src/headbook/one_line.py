"""Errors of a user on one line."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from headbook.types import UserError


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Reports user errors on one line and exits with status 2."""
    try:
        yield
    except UserError as error:
        line = " ".join(str(error).splitlines())
        typer.secho(f"headbook: {line}", err=True, fg="red")
        raise typer.Exit(2) from None
