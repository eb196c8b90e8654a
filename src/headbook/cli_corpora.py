"""`headbook corpora`: list, fetch, check and pack corpora."""

from pathlib import Path
from typing import Annotated

import typer

from headbook.one_line import one_line_errors

corpora = typer.Typer(no_args_is_help=True, help="Lists, fetches, checks and packs corpora.")


@corpora.command("list")
def corpora_list() -> None:
    """Every corpus, and where it is now.

    With its languages, pairs, size and licence.
    """
    with one_line_errors():
        from headbook.corpora.registry import table

        for row in table():
            size = f"{row.bytes / 1e6:,.1f} MB" if row.bytes else "size unknown"
            typer.echo(
                f"{row.name:24} {row.languages:6} {row.pairs:>10,} {size:>14}  "
                f"{row.place:14} {row.licence}"
            )


@corpora.command("fetch")
def corpora_fetch(name: str) -> None:
    """Finds a corpus in HEADBOOK_DATA, or downloads it.

    Its digests are checked either way.
    """
    with one_line_errors():
        from headbook.corpora.download import fetch

        for part, path in fetch(name).items():
            typer.echo(f"{part}: {path}")


@corpora.command("check")
def corpora_check() -> None:
    """Compares every file that is here with its digest.

    Status 1 where one is wrong.
    """
    with one_line_errors():
        from headbook.corpora.download import State, check

        found = check()
        for each in found:
            typer.echo(f"{each.corpus:24} {each.state:22} {each.file}")
        if any(each.state is State.WRONG for each in found):
            raise typer.Exit(1)


@corpora.command("pack")
def corpora_pack(
    folder: Path,
    names: Annotated[list[str], typer.Argument(help="Models by name, see `headbook models`.")],
) -> None:
    """Copies what trainings of these models read, for a machine without network.

    Run it again to copy missing or damaged files.
    """
    with one_line_errors():
        from headbook.training.pack import pack

        for line in pack(folder, names):
            typer.echo(line)
