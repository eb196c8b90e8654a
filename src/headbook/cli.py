"""`headbook`: look at a model; fetch corpora, plan, pack, train, run, publish, build the book."""

import math
import shlex
import time
from pathlib import Path
from typing import Annotated

import typer

from headbook.cli_corpora import corpora
from headbook.one_line import one_line_errors
from headbook.types import UserError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  rich_markup_mode=None, help=__doc__)  # fmt: skip
app.add_typer(corpora, name="corpora")

Names = Annotated[
    list[str] | None, typer.Argument(help="Notebooks by name or number; all if none.")
]
ModelNames = Annotated[
    list[str] | None, typer.Argument(help="Models by name (`headbook models`), or a profile's.")
]
ProfileOrNone = Annotated[
    str | None,
    typer.Option(
        help="Where no model is named, a file of notebooks/profiles: smoke, quick, laptop, long, "
        "full."
    ),
]
Corpus = Annotated[str | None, typer.Option(help="Instead of the profile's corpora.")]
SizeName = Annotated[str | None, typer.Option(help="Instead of the profile's size.")]
Seed = Annotated[int | None, typer.Option(help="Instead of the profile's seeds.")]
Minutes = Annotated[float | None, typer.Option(help="Stop within so many minutes.")]


def _seconds(minutes: float | None) -> float:
    """No limit is infinity."""
    if minutes is not None and not minutes > 0:
        raise UserError(f"minutes is {minutes}; give more than 0")
    return 60 * (minutes or math.inf)


def _as_published(differing: list[str]) -> None:
    """Prints a line for each difference; status 1 where there is one."""
    for line in differing:
        typer.secho(f"not as published: {line}", err=True, fg="red")
    if differing:
        raise typer.Exit(1)


def _alone(command: str) -> None:
    """Only trainings are shared: elsewhere one process would wait for another for ever."""
    from headbook.training.processes import started_by_torchrun

    if started_by_torchrun():
        raise UserError(
            f"`headbook {command}` runs in one process; torchrun is for `headbook train`"
        )


def _named(names: list[str] | None, **others: object) -> list[str]:
    """The models named on the command line; UserError beside a profile or its options."""
    if not names:
        return []
    from headbook.artefacts.catalogue import select

    if given := [name for name, value in others.items() if value is not None]:
        raise UserError(f"models by name and --{given[0]} exclude one another: give one of them")
    return select(names)


def _from_anywhere(corpus: str | None) -> str | None:
    """A corpus by name, or a user's folder by its absolute path, as notebooks run in their own."""
    from headbook.corpora.registry import is_path, registry

    if not corpus or corpus in registry() or not is_path(corpus):
        return corpus
    return str(Path(corpus).expanduser().resolve())


@app.command()
def run(
    names: Names = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="published, smoke, quick, laptop, long or full; published, or quick where "
            "a corpus, size or seed is given."
        ),
    ] = None,
    corpus: Corpus = None,
    size: SizeName = None,
    seed: Seed = None,
    workers: Annotated[int, typer.Option(help="Notebooks at a time.")] = 2,
) -> None:
    """Executes notebooks with papermill.

    At `published` released models are measured now, and pages about models trained here read
    their published tables. At the other profiles results that the run store lacks are computed.

    Status: 0, 1 where a value measured again is not as published, 2 for a mistake or a notebook
    that failed.
    """
    with one_line_errors():
        from headbook.chapters import PUBLISHED
        from headbook.chapters.config import Config
        from headbook.publishing.notebooks import differences, execute
        from headbook.tables import check

        _alone("run")
        asked = {"corpus": _from_anywhere(corpus), "size": size, "seed": seed}
        given = {name: value for name, value in asked.items() if value is not None}
        profile = profile or ("quick" if given else PUBLISHED)
        if given or profile != PUBLISHED:
            # Said now and once, not by every notebook after it has started.
            Config(profile, **given).models()
        check()
        _as_published(differences(execute(names, profile, given, workers)))


@app.command()
def parameters(
    name: Annotated[str, typer.Argument(help="A notebook by name or number.")],
    profile: Annotated[
        str | None,
        typer.Option(help="A file of notebooks/profiles; the notebook's own by default."),
    ] = None,
) -> None:
    """Prints a notebook's parameters as a file.

    In YAML, as `papermill -f` reads it.
    """
    with one_line_errors():
        from headbook.publishing.templates import as_yaml, select

        (template,) = select([name])
        typer.echo(as_yaml(template, profile), nl=False)


@app.command()
def train(
    names: ModelNames = None,
    profile: ProfileOrNone = None,
    corpus: Corpus = None,
    size: SizeName = None,
    seed: Seed = None,
    minutes: Minutes = None,
) -> None:
    """Trains the models that the run store lacks.

    By name or a profile's (quick by default), one after the other; of a profile all but λ sweeps.
    Its language models come last, and under torchrun not at all: one process trains them.

    With --minutes it stops in time, a checkpoint saved; the same command continues. Time is kept
    between updates: the translation of a model's test sets, after its last update, is not cut.

    Status: 0 when all models are there, 3 when time ran out, 2 for a mistake. Under torchrun all
    processes train each model together, and torchrun turns every status but 0 into 1.
    """
    began = time.monotonic()
    with one_line_errors():
        limit = _seconds(minutes)
        from headbook.chapters.config import Config
        from headbook.planning.train import train_all_missing, train_named
        from headbook.runs.store import Store

        given = (Store.default(), typer.echo, began + limit)
        if chosen := _named(names, profile=profile, corpus=corpus, size=size, seed=seed):
            done = train_named(chosen, *given)
        else:
            config = Config(profile or "quick", _from_anywhere(corpus), size, seed=seed)
            done = train_all_missing(config, *given)
        if not done:
            raise typer.Exit(3)


@app.command()
def publish(
    names: Names = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="released, smoke, quick, laptop, short, long or full; each page's own by default."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Adds rows of this model to the released ones.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            help="Adds the rows that this parameter gives, of --model alone if named: lists=3, "
            "'tasks=[\"XOR\"]'."
        ),
    ] = None,
    minutes: Minutes = None,
) -> None:
    """Computes pages and writes their tables to data/results.

    With --minutes it stops in time and prints the command that continues.

    Status: 0 when all are published, 3 when time ran out, 2 for a mistake.
    """
    with one_line_errors():
        limit = _seconds(minutes)
        from headbook.publishing.results import chosen, parameters, published
        from headbook.publishing.time_limit import TimeUpError, stopped_after

        _alone("publish")
        asked = parameters(given or ())
        pages = chosen(names, profile, model or ", ".join(asked))
        left = [template.name.partition("_")[0] for template in pages]
        try:
            with stopped_after(limit):
                for where in published(pages, profile, model, asked):
                    left.pop(0)
                    typer.echo(str(where))
        except TimeUpError:
            if not left:
                return
            at = f" --profile {profile}" if profile else f" --model {model}" if model else ""
            at += "".join(f" --given {shlex.quote(each)}" for each in given or ())
            same = f"headbook publish {' '.join(left)}{at} --minutes {minutes:g}"
            typer.echo(f"time is up; to continue: {same}")
            raise typer.Exit(3) from None


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
    with one_line_errors():
        from functools import cache

        from headbook.book.numbers import sources, update

        @cache
        def verdicts() -> dict[str, str]:
            from headbook.claims.scorecard import stated  # takes seconds, and few texts need it

            return stated()

        faults, stale = [], 0
        for path in files or sources():
            try:
                found = update(path, verdicts, write=not check)
            except UserError as fault:
                faults.append(str(fault))
                continue
            stale += len(found)
            for before, after in found:
                typer.echo(f"{path.name}: {before} -> {after}")
        for fault in faults:
            typer.echo(fault, err=True)
        if faults:
            raise UserError(f"{len(faults)} files refer to what is not published: mend them")
        if stale and check:
            raise UserError(f"{stale} numbers or verdicts are out of date: run headbook numbers")


@app.command()
def explain(
    names: ModelNames = None,
    profile: ProfileOrNone = None,
    corpus: Corpus = None,
    size: SizeName = None,
    seed: Seed = None,
) -> None:
    """Says which models, by name or a profile's, are stored.

    For the others, it says why they would be trained again.
    """
    with one_line_errors():
        from headbook.artefacts.catalogue import runs
        from headbook.chapters.config import Config
        from headbook.planning.explain import lines

        if chosen := _named(names, profile=profile, corpus=corpus, size=size, seed=seed):
            asked = runs(*chosen)
        else:
            asked = Config(profile or "quick", _from_anywhere(corpus), size, seed=seed).models()
        for line in lines(asked):
            typer.echo(line)


@app.command()
def models(
    names: Annotated[
        list[str] | None, typer.Argument(help="Families to list model by model, by name.")
    ] = None,
) -> None:
    """Lists every model of the book.

    With its kind, size, corpus, published BLEU, whether it converged, and how many of its weights
    are here. A family of models, such as one recipe's seeds and variants, is one line.
    """
    with one_line_errors():
        from headbook.planning.models import lines

        for line in lines(names or ()):
            typer.echo(line)


@app.command()
def plan(
    names: ModelNames = None,
    profile: ProfileOrNone = None,
    share: Annotated[
        float | None, typer.Option(help="Of the rate, in training; as measured by default.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="GFLOP/s in matrix products; measured here by default.")
    ] = None,
) -> None:
    """Lists trainings, by name or a profile's, before any starts.

    With operations, hours, memory and disk; of the profile full by default.
    """
    with one_line_errors():
        from headbook.artefacts.catalogue import runs
        from headbook.chapters.config import Config
        from headbook.planning.plan import lines, named_lines

        chosen = _named(names, profile=profile)
        of_names = named_lines(runs(*chosen), share, rate) if chosen else None
        for line in of_names or lines(Config(profile or "full"), share, rate):
            typer.echo(line)


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="Folder to write to, new or existing.")],
    names: ModelNames = None,
    profile: ProfileOrNone = None,
) -> None:
    """Collects the data for a machine without network or spaCy.

    Corpora and subwords of models by name; or of a profile (full by default), and its treebanks and
    parses. Subwords and parses that the run store lacks are computed now. Run it again to resume or
    repair a pack.
    """
    with one_line_errors():
        from headbook.chapters.config import Config
        from headbook.planning.pack import lines, named_lines
        from headbook.runs.store import Store

        chosen = _named(names, profile=profile)
        store = Store.default()
        of_names = named_lines(chosen, folder, store) if chosen else None
        for line in of_names or lines(Config(profile or "full"), folder, store):
            typer.echo(line)


@app.command()
def weights(
    name: Annotated[str, typer.Argument(help="A model trained here, see `headbook models`.")],
    update: Annotated[
        int | None,
        typer.Option(help="A snapshot; by default the best model, or a training's checkpoint."),
    ] = None,
) -> None:
    """Writes the weights of a model trained here to data/models.

    In 16 bits, with its subwords and record: others load it by its name, or train it further.
    """
    with one_line_errors():
        from headbook.publishing.weights import publish_weights
        from headbook.runs.store import Store

        _alone("weights")
        typer.echo(str(publish_weights(name, Store.default(), update)))


@app.command()
def look(
    model: Annotated[str, typer.Argument(help="Catalogue name, folder or Hugging Face id.")],
    text: Annotated[str, typer.Option(help="Treebank, CoNLL-U file or text.")] = "ewt-sample",
    out: Annotated[Path | None, typer.Option(help="Folder; look/MODEL by default.")] = None,
    first: Annotated[int | None, typer.Option(help="Only so many sentences.")] = None,
) -> None:
    """Measures every head of a model.

    Writes one HTML page, which works offline, and a CSV table.
    """
    with one_line_errors():
        from headbook.looking.look import look as looked

        for path in looked(model, text, out, first):
            typer.echo(str(path))


@app.command()
def book() -> None:
    """Builds the HTML book and prints where it is.

    Status: 0, 1 where a page measured a value that is not as published, 2 for a mistake.
    """
    with one_line_errors():
        from headbook import paths
        from headbook.publishing.book import build
        from headbook.publishing.notebooks import differences_of
        from headbook.tables import check

        check()
        typer.echo(build())
        _as_published(differences_of(sorted(paths.EXECUTED.glob("*.ipynb"))))


@app.command()
def bench(
    rounds: Annotated[int, typer.Option(help="Interleaved rounds; the median is printed.")] = 5,
) -> None:
    """Measures speed and memory, as ratios in one run."""
    with one_line_errors():
        from headbook.bench import report

        report(rounds=rounds)
