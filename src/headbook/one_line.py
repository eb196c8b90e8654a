"""Errors of a user, of the system and of a stop on one line."""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.core import TyperGroup

from headbook import paths
from headbook.extras import extras
from headbook.types import UserError


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Reports user errors, and what the system refuses, on one line and exits with status 2.

    A stop by SIGINT or SIGTERM is a line that says how to go on, and has its shell's status.
    """
    try:
        with extras():
            yield
        sys.stdout.flush()
    except UserError as error:
        _end(str(error), 2)
    except OSError as error:
        if error.errno == errno.EPIPE:  # typer ends quietly
            raise
        named = f"{error.filename}: " if error.filename else ""
        _end(named + (error.strerror or str(error)), 2)
    except KeyboardInterrupt as stopped:
        number = stopped.args[0] if stopped.args else signal.SIGINT
        name = signal.Signals(number).name
        _end(f"stopped ({name}): give the same command again, what is kept is not made again",
             128 + number)  # fmt: skip


def _end(line: str, status: int) -> None:
    with suppress(OSError):
        typer.secho(f"headbook: {' '.join(line.splitlines())}", err=True, fg="red")
    try:
        sys.stdout.flush()
    except OSError:  # what is left for a full disk is not tried for again when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(status) from None


def _asked_to_end(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


class Commands(TyperGroup):
    """A group of commands that report a user's mistakes so; none takes an empty text."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with one_line_errors():
            for before, each in zip(["", *args], args, strict=False):
                name, given, value = each.partition("=")
                if not each or (name.startswith("--") and given and not value):
                    raise UserError(f"{name or before or 'an argument'} is empty: give it a value")
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        paths.choose_no_window()
        before = signal.signal(signal.SIGTERM, _asked_to_end)
        try:
            with one_line_errors():
                return super().invoke(ctx)
        finally:
            signal.signal(signal.SIGTERM, before)
