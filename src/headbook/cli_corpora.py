"""`headbook corpora`: list, fetch and pack corpora."""

from pathlib import Path
from typing import Annotated

import typer

from headbook.one_line import one_line_errors

corpora = typer.Typer(no_args_is_help=True, help="Lists, fetches and packs corpora.")


@corpora.command("list")
def corpora_list() -> None:
    """Every corpus, and where it is now.

    With its languages, pairs, size and licence.
    """
    with one_line_errors():
        from headbook.text.registry import place, registry

        for entry in registry().values():
            size = f"{entry.bytes / 1e6:,.1f} MB" if entry.bytes else "size unknown"
            typer.echo(
                f"{entry.name:24} {entry.languages:6} {entry.pairs:>10,} {size:>14}  "
                f"{place(entry):14} {entry.licence}"
            )


@corpora.command("fetch")
def corpora_fetch(name: str) -> None:
    """Finds a corpus in HEADBOOK_DATA, or downloads it.

    Its digests are checked either way.
    """
    with one_line_errors():
        from headbook.text.download import locate

        for part, path in locate(name).files.items():
            typer.echo(f"{part}: {path}")


@corpora.command("pack")
def corpora_pack(
    folder: Path,
    names: Annotated[list[str], typer.Argument(help="Models by name, see `headbook models`.")],
) -> None:
    """Copies what trainings of these models read, for a machine without network."""
    with one_line_errors():
        from headbook.training.pack import pack

        for line in pack(folder, names):
            typer.echo(line)
