"""Execute the notebooks; the executed copies are the only notebooks the book reads."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
from tqdm import tqdm

from headbook import paths, tables
from headbook.publishing.contents import record_of
from headbook.publishing.kernels import fork_them, processes
from headbook.publishing.templates import Template, check, parameters_for, select
from headbook.publishing.tidy import tidy
from headbook.types import COMPARED, UserError

SMOKE, PUBLISH = "smoke", "publish"
"""Purposes other than reading, with parameters of their own in notebooks/parameters."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# a kernel that is interrupted while it ends says so as an error, which it is not
QUIET = "--IPKernelApp.log_level=CRITICAL"
MOST = 20
"""Differences that are listed; the copies' records have all."""


@dataclass(frozen=True)
class Executed:
    """One notebook that was run; `failure` is its one line when it did not come through.

    `path` is the executed copy, or on failure the copy up to the cell that failed. `compared` is
    the number of values measured live that are published too, in so many `rows` of the page's
    `published` ones; `differing` has a line for each that is not as published.
    `processor` is the kernel's processor time in seconds, `peak` its largest memory in gigabytes.
    """

    name: str
    path: Path
    parameters: Mapping[str, object]
    seconds: float
    failure: str | None = None
    compared: int = 0
    differing: tuple[str, ...] = ()
    processor: float = 0.0
    peak: float = 0.0
    rows: int = 0
    published: int = 0


def execute(
    names: list[str] | None, parameters: Mapping[str, object], purpose: str = "", workers: int = 2
) -> list[Executed]:
    """Execute the named notebooks (all for None), up to `workers` at a time.

    Raises UserError for an unknown notebook or parameter, and after the last notebook when any
    failed: a failed page keeps its previous copy, and NAME.failed.ipynb holds it as far as it got.
    """
    done = attempt(select(names), parameters, purpose, workers)
    print(summary(done), file=sys.stderr)
    failed = [each for each in done if each.failure]
    if failed:
        kept = ", ".join(str(each.path) for each in failed)
        raise UserError(
            f"{len(failed)} of {len(done)} notebooks failed, as far as they got: {kept}"
        )
    return done


def publish(names: list[str] | None, parameters: Mapping[str, object]) -> Iterator[Path]:
    """Run each notebook so that `hb.publish` writes its tables, and yield their folder.

    `parameters` stand in the place of the page's own and those of parameters/publish.yml.
    UserError where a notebook fails.
    """
    for template in select(names):
        number = template.name.partition("_")[0]
        given = {**template.parameters, **parameters_for(template, PUBLISH), **parameters}
        (done,) = attempt(
            [template], parameters, PUBLISH, 1, destination=paths.REPOSITORY / "build" / "publish",
            more=paths.to_publish(number, given),
        )  # fmt: skip
        if done.failure:
            raise UserError(f"{template.name} was not published: {done.failure} ({done.path})")
        yield tables.folder(number)


def summary(done: list[Executed]) -> str:
    """One line: the values measured again beside the published ones, and the largest notebook."""
    largest = max(done, key=lambda each: each.peak)
    line = f"{len(done)} notebooks, the largest {largest.name} with {largest.peak:.1f} GB; "
    values, rows, published = (
        sum(getattr(each, name) for each in done) for name in ("compared", "rows", "published")
    )
    if not values:
        return line + "none measured a published value again"
    line += f"{values:,} values measured again, "
    line += f"{rows:,} of {published:,} published rows ({rows / max(1, published):.0%}): "
    if wrong := [each for each in done if each.differing]:
        count = sum(len(each.differing) for each in wrong)
        return line + f"{count:,} differ, on {', '.join(each.name for each in wrong)}"
    return line + "all as published"


def differences(copies: Iterable[Path]) -> list[str]:
    """A line for each value of executed copies that is not as published, by the records beside
    them, naming page, table, row and both values."""
    files = [file for copy in copies if (file := record_of(copy)).exists()]
    records = (json.loads(file.read_text("utf-8")) for file in files)
    found = [line for each in records for line in each.get("differing", ())]
    more = [f"and {len(found) - MOST:,} more"] if len(found) > MOST else []
    return [*found[:MOST], *more]


def attempt(
    chosen: list[Template],
    parameters: Mapping[str, object],
    purpose: str = "",
    workers: int = 2,
    *,
    destination: Path | None = None,
    more: Mapping[str, str] | None = None,
) -> list[Executed]:
    """Execute the templates and return one Executed each, in order, the failed ones included.

    `more` are variables of the environment for the kernels.
    """
    given = {each.name: {**parameters_for(each, purpose), **parameters} for each in chosen}
    for template in chosen:
        check(template, given[template.name])
    destination = destination or paths.EXECUTED
    destination.mkdir(parents=True, exist_ok=True)
    workers = max(1, min(workers, len(chosen)))
    variables = paths.variables() | (ONE_THREAD if workers > 1 else {}) | dict(more or {})
    # each in a process of its own, the memory of whose children is that of one kernel then
    with ProcessPoolExecutor(workers, processes(variables), max_tasks_per_child=1) as pool:
        # backwards, as the last part's pages take longest: nobody waits for them in the end
        done = [
            pool.submit(_run, each.path, destination, given[each.name], variables)
            for each in reversed(chosen)
        ]
        try:
            # no bar in a file, where it would be a line each second
            for future in tqdm(as_completed(done), total=len(done), unit="notebook", disable=None):
                tqdm.write(_line(future.result()), file=sys.stderr)
        except BrokenProcessPool:
            raise UserError("a notebook's process was killed: has it memory? --workers 1") from None
        finally:
            pool.shutdown(cancel_futures=True)
    return [future.result() for future in reversed(done)]


def _line(executed: Executed) -> str:
    if executed.failure:
        return f"{executed.name}: {executed.failure}"
    line = f"{executed.name}: {executed.seconds:.0f} s, {executed.peak:.1f} GB"
    if executed.differing:
        return f"{line}, measured live and not as published: {executed.differing[0]}"
    return line + (f", {executed.compared:,} live values as published" * bool(executed.compared))


def _run(
    template: Path, folder: Path, parameters: dict[str, object], variables: dict[str, str]
) -> Executed:
    """Execute one notebook aside and put it in its place; runs in a process of its own."""
    start, name = time.monotonic(), template.stem
    aside, copy, failed = (
        folder / file
        for file in (f".{name}.partial.ipynb", f"{name}.ipynb", f"{name}.failed.ipynb")
    )
    fork_them()
    with paths.with_variables(variables):
        failure = _papermill(template, aside, parameters)
    seconds = round(time.monotonic() - start, 1)
    if failure:
        if aside.exists():
            os.replace(aside, failed)
        return Executed(name, failed, parameters, seconds, failure)
    notebook = tidy(nbformat.read(aside, as_version=4))
    nbformat.write(notebook, aside)
    os.replace(aside, copy)
    failed.unlink(missing_ok=True)
    # beside the page and not in it: a rerun of an unchanged page leaves an unchanged file
    done = Executed(name, copy, parameters, seconds, None, **_used(), **_compared(notebook),
                    published=tables.rows(name))  # fmt: skip
    executed = asdict(done) | {"path": copy.name}
    record_of(copy).write_text(json.dumps(executed, indent=1) + "\n", encoding="utf-8")
    return done


def _papermill(
    template: Path, copy: Path, parameters: dict[str, object], tries: int = 3
) -> str | None:
    import papermill

    try:
        papermill.execute_notebook(
            template,
            copy,
            parameters,
            kernel_name="python3",
            progress_bar=False,
            # a busy machine is slow and not broken
            start_timeout=600,
            iopub_timeout=600,
            cwd=template.parent,
            extra_arguments=[QUIET],
        )
    except papermill.PapermillExecutionError as error:
        return f"cell {error.cell_index + 1} failed: {error.ename}: {_last_line(error.evalue)}"
    except Exception as error:  # a dead kernel, a full disk: one line for the user all the same
        # one that dies before any cell has most likely lost its port to another program
        if tries > 1 and "died before replying" in str(error):
            return _papermill(template, copy, parameters, tries - 1)
        return f"not executed: {type(error).__name__}: {_last_line(str(error))}"
    return None


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _compared(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """Live values and rows that are published too, and the values that differ."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [each for output in outputs if (each := output.get("data", {}).get(COMPARED))]
    return {
        "compared": sum(each["cells"] for each in found),
        "rows": sum(each["rows"] for each in found),
        "differing": tuple(line for each in found for line in each["differing"]),
    }


def _used() -> dict[str, float]:
    """Processor seconds and peak gigabytes of this process's one kernel, which has ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024
    return {"processor": round(used.ru_utime + used.ru_stime, 1),
            "peak": round(used.ru_maxrss * unit / 1e9, 2)}  # fmt: skip
