"""`headbook`: look at a model; fetch corpora, train, run, publish, build the book."""

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from headbook.one_line import Commands
from headbook.types import UserError

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help=__doc__,
)
corpora = typer.Typer(no_args_is_help=True, help="Lists, fetches and packs corpora.")
app.add_typer(corpora, name="corpora")

Names = Annotated[
    list[str] | None, typer.Argument(help="Notebooks by name or number; all if none.")
]
Given = Annotated[
    list[str] | None,
    typer.Option(help="A parameter of the notebook: sentences=7, 'models=[\"minilm\"]'."),
]


def _as_published(copies: Iterable[Path]) -> None:
    """Prints a line for each difference of executed copies; status 1 where there is one."""
    from headbook.publishing.notebooks import differences

    differing = differences(copies)
    for line in differing:
        typer.secho(f"not as published: {line}", err=True, fg="red")
    if differing:
        raise typer.Exit(1)


def parameters(given: list[str] | None) -> dict[str, Any]:
    """`name=value` as parameters; a value that is no JSON is a text."""
    found = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not (name and equals):
            raise UserError(f"--given {each!r} is no name=value, as in --given lists=3")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
        if found[name] == "" or (isinstance(found[name], list) and "" in found[name]):
            raise UserError(f"--given {each!r} gives an empty text: leave {name} out, or name one")
    return found


@app.command()
def run(
    names: Names = None,
    given: Given = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="On next to nothing.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Notebooks at a time.")] = 2,
) -> None:
    """Executes notebooks with papermill.

    What they measure is compared with published tables. Status: 0, 1 where a value measured again
    is not as published, 2 for a mistake or a notebook that failed.
    """
    from headbook.publishing.notebooks import SMOKE, execute
    from headbook.tables import check

    asked = parameters(given)
    check()
    purpose = SMOKE if smoke else ""
    _as_published(each.path for each in execute(names, asked, purpose, workers))


@app.command()
def train(
    names: Annotated[list[str], typer.Argument(help="Models by name, see `headbook models`.")],
    minutes: Annotated[float | None, typer.Option(help="Stop within so many minutes.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only says what it would take.")] = False,
    rate: Annotated[
        float | None, typer.Option(help="Of --plan, GFLOP/s in matrix products; or measured.")
    ] = None,
) -> None:
    """Trains the models that the run store lacks, one after the other.

    With --minutes it stops in time, a checkpoint saved; the same command continues. Time is kept
    between updates: the translation of a model's test sets, after its last update, is not cut.

    Status: 0 when all models are there, 3 when time ran out, 2 for a mistake. Under torchrun all
    processes train each model together, and torchrun turns every status but 0 into 1.
    """
    began = time.monotonic()
    if minutes is not None and not minutes > 0:
        raise UserError(f"minutes is {minutes}; give more than 0")
    from headbook.recipes import select
    from headbook.runs.store import Store
    from headbook.training.plan import lines
    from headbook.training.train import train_missing

    chosen = select(names)
    if plan:
        for line in lines(chosen, rate):
            typer.echo(line)
    elif not train_missing(chosen, Store.default(), typer.echo, began + 60 * (minutes or math.inf)):
        raise typer.Exit(3)


@app.command()
def publish(
    names: Names = None,
    given: Given = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Instead of pages, a model, NAME or NAME@UPDATE: weights to data/models"),
    ] = None,
) -> None:
    """Runs pages and writes their tables to data/results.

    Pages have their parameters for publication. Weights are written in 16 bits, with subwords and
    record: others load the model by its name.
    """
    if weights is None:
        from headbook.publishing import notebooks

        for where in notebooks.publish(names, parameters(given)):
            typer.echo(str(where))
        return
    from headbook.publishing.weights import publish_weights
    from headbook.runs.store import Store

    typer.echo(str(publish_weights(weights, Store.default())))


@app.command()
def numbers(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Notebooks or texts; all of the book if none.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Writes nothing.")] = False,
) -> None:
    """Writes published numbers and verdicts into the prose.

    Status: 0 when all are current afterwards, 2 for a reference that cannot be resolved and, with
    --check, for a number or verdict that is out of date.
    """
    from headbook import paths
    from headbook.book.numbers import sources, update
    from headbook.claims.scorecard import stated

    verdicts, faults, stale = stated(), 0, 0
    for path in map(paths.expanded, files or sources()):
        try:
            found = update(path, verdicts, write=not check)
        except UserError as fault:
            typer.echo(str(fault), err=True)
            faults += 1
            continue
        stale += len(found)
        for before, after in found:
            typer.echo(f"{path.name}: {before} -> {after}")
    if faults:
        raise UserError(f"{faults} files refer to what is not published: mend them")
    if stale and check:
        raise UserError(f"{stale} numbers or verdicts are out of date: run headbook numbers")


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="Families to list model by model, by name.")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only names of those that are not trained here.")
    ] = False,
) -> None:
    """Lists every model of the book.

    With its size, corpus, published BLEU, and how many of its weights are here. A family of models,
    such as one recipe's seeds and variants, is one line.
    """
    from headbook.training import listing

    for line in listing.missing(names or ()) if missing else listing.lines(names or ()):
        typer.echo(line)


@app.command()
def look(
    model: Annotated[str, typer.Argument(help="Catalogue name, folder or Hugging Face id.")],
    text: Annotated[str, typer.Option(help="Treebank, CoNLL-U file or text.")] = "ewt-sample",
    out: Annotated[Path | None, typer.Option(help="Folder; look/MODEL by default.")] = None,
    first: Annotated[int | None, typer.Option(help="Only so many sentences.")] = None,
    sentence: Annotated[
        list[str] | None, typer.Option(help="Show attention in this sentence; several times.")
    ] = None,
    beside: Annotated[
        str | None, typer.Option(help="Another model of as many heads, compared head by head.")
    ] = None,
    importance: Annotated[bool, typer.Option(help="Also importance, which is slow.")] = True,
    nulls: Annotated[
        int | None, typer.Option(help="Only so many null networks; 0 saves their time.")
    ] = None,
    diverse: Annotated[bool, typer.Option(help="Also how heads of a layer differ.")] = True,
) -> None:
    """Measures every head of a model; says first how long it takes.

    Writes one HTML page, which works offline, and CSV tables.
    """
    from headbook.looking.look import look as looked

    slow = {"importance": importance, "diverse": diverse}
    slow |= {} if nulls is None else {"nulls": nulls}
    for path in looked(model, text, out, first, sentences=sentence or (), beside=beside, **slow):
        typer.echo(str(path))


@app.command()
def book() -> None:
    """Builds the HTML book and prints where it is.

    Status: 0, 1 where a page measured a value that is not as published, 2 for a mistake.
    """
    from headbook import paths
    from headbook.publishing.book import build
    from headbook.tables import check

    check()
    typer.echo(build())
    _as_published(sorted(paths.EXECUTED.glob("*.ipynb")))


@app.command()
def bench(
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved rounds, for the median.")] = 5,
    steps: Annotated[
        bool, typer.Option("--steps", help="Instead, what would make a training step quicker.")
    ] = False,
) -> None:
    """Speed of training and of measuring, as ratios of one run."""
    from headbook import bench as usual
    from headbook import bench_steps

    table = (bench_steps if steps else usual).bench(rounds)
    typer.echo(table.to_string(index=False, float_format=lambda value: f"{value:,.2f}"))


@corpora.command("list")
def corpora_list() -> None:
    """Every corpus, and where it is now, with its languages, pairs, size and licence."""
    from headbook.text.registry import place, registry

    for entry in registry().values():
        size = f"{entry.bytes / 1e6:,.1f} MB" if entry.bytes else "size unknown"
        typer.echo(
            f"{entry.name:24} {entry.languages:6} {entry.pairs:>10,} {size:>14}  "
            f"{place(entry):14} {entry.licence}"
        )


@corpora.command("fetch")
def corpora_fetch(name: str) -> None:
    """Finds a corpus in HEADBOOK_DATA, or downloads it, and checks its digests."""
    from headbook.text.download import locate

    for part, path in locate(name).items():
        typer.echo(f"{part}: {path}")


@corpora.command("pack")
def corpora_pack(
    folder: Path,
    names: Annotated[list[str], typer.Argument(help="Models by name, see `headbook models`.")],
) -> None:
    """Copies corpora and subwords, for a machine without network."""
    from headbook.training.pack import pack

    for line in pack(folder, names):
        typer.echo(line)
