"""The generated pages: scorecard, every head, interface, deviations, changelog, status, cite."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import yaml

from headbook import paths
from headbook.claims.ledger import PROFILES
from headbook.publishing.citation import Citation, citation
from headbook.publishing.notebooks import record_of
from headbook.runs import record
from headbook.runs.canonical import canonical
from headbook.types import UserError

BOOK_PACKAGES = ("papermill", "jupyter-book")
PAGES = ("page", "date", "runs read", "commit", "machine")
TRAININGS = ("what", "corpus", "seed", "width", "updates", "started", "hours", "commit", "machine")
NOT_RECORDED = "not recorded"
TRAINED = {"model": "translation", "language": "language model", "encoder": "of source text"}
"""Stages whose runs are listed, and what they train."""
HOURS = """\
Hours are those of the process that finished a training; one that was killed and went on took more.
Pruned models and their controls are not listed. `runs read` counts all that a page took from the
run store, parses and measurements among them; results from before that was recorded name the
profile's translation models, or nothing where a page read none of those."""


def write(folder: Path, copies: list[Path]) -> None:
    """Write every generated page as NAME.md; `copies` are the executed notebooks."""
    from headbook.claims import scorecard
    from headbook.publishing import heads, interface

    folder.mkdir(parents=True)
    texts = {
        "scorecard": scorecard.page(paths.RESULTS, pages="../_executed"),
        "heads": heads.page(),
        "interface": interface.page(),
        "deviations": deviations(paths.BOOK / "deviations.yml"),
        "changelog": (paths.REPOSITORY / "CHANGELOG.md").read_text("utf-8"),
        "cite": cite(citation()),
        "status": status(copies, paths.RESULTS),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def cite(source: Citation) -> str:
    """How to cite the book, from CITATION.cff."""
    version = f"Version {source.version}"
    parts = [", ".join(source.authors), source.year, f"*{source.title}*", version]
    address = f"https://doi.org/{source.doi}" if source.doi else source.repository
    where = f"<{address}>" if address else ""
    return "\n\n".join(
        [
            "# Cite this book",
            ". ".join(filter(None, [*parts, where])) + ".",
            f"```bibtex\n{source.bibtex()}\n```",
            "Please cite the works whose claims a page replicates as well; "
            "{doc}`/references` lists them all.",
            f"Text and code are under the [{source.licence} licence](../_static/LICENSE.txt). "
            "Corpora and released models have licences of their own, which `data/corpora.toml` and "
            "`data/models.toml` name.",
            "",
        ]
    )


def deviations(register: Path) -> str:
    """The register of deviations as a page: a section for each id, a line for each of its fields.

    Raises UserError for an entry without an id or with another's.
    """
    entries = yaml.safe_load(register.read_text("utf-8")) or []
    entries = entries.get("deviations", []) if isinstance(entries, dict) else entries
    ids = [str(entry.get("id", "")) for entry in entries]
    if "" in ids or len(set(ids)) < len(ids):
        raise UserError(f"{register}: every deviation has an id of its own, found {ids}")
    opening = "# Deviations\n\nWhere this book does something else than the paper, and why.\n"
    return "\n".join([opening, *(_deviation(entry) for entry in entries)])


def _deviation(entry: dict) -> str:
    title = entry.get("title", "")
    lines = [f"(deviation-{entry['id']})=", f"## {entry['id']}" + (f": {title}" if title else "")]
    for field, value in entry.items():
        if field not in ("id", "title") and value not in (None, ""):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value).strip()
            lines.append(f"\n**{field.replace('_', ' ').capitalize()}.** {text}")
    return "\n".join(lines) + "\n"


def status(copies: list[Path], results: Path) -> str:
    """Provenance of this copy of the book: versions, machine, run times, published runs."""
    versions = {"Python": platform.python_version(), **record.versions()}
    versions |= {name: version(name) for name in BOOK_PACKAGES}
    return "\n\n".join(
        [
            "# Status",
            "Versions, machine and runs behind this copy of the book.",
            "## This machine",
            table(("property", "value"), [*record.hardware().items(), ("commit", record.commit())]),
            "## Versions",
            table(("package", "version"), list(versions.items())),
            "## Pages",
            table(("page", "profile", "seconds"), [_run_time(copy) for copy in copies]),
            "## Published runs",
            _published(results),
            "",
        ]
    )


def table(header: tuple[str, ...], rows: list[tuple]) -> str:
    """A Markdown table; every cell becomes text in which a bar starts no new column."""
    lines = [header, ("---",) * len(header), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _run_time(copy: Path) -> tuple[str, str, str]:
    record = record_of(copy)
    if not record.exists():
        return f"[](../_executed/{copy.name})", "unknown", "executed by hand"
    made = json.loads(record.read_text("utf-8"))
    return f"[](../_executed/{copy.name})", made["profile"], f"{made['seconds']:.0f}"


def _published(results: Path) -> str:
    """Runs with machine and duration, a section for each published profile, the largest first."""
    from headbook.old_results import studies  # with pandas, which building a book needs late

    by_profile = {name: studies(name, results) for name in reversed(PROFILES)}
    sections = [_profile(name, runs) for name, runs in by_profile.items() if runs]
    return "\n\n".join([*sections, HOURS]) if sections else "None yet."


def _profile(name: str, runs: dict[str, dict]) -> str:
    """The trainings that a profile's pages read, and the pages."""
    pages = [_page(name, run) for name, run in runs.items()]
    read = (made for run in runs.values() for made in run.get("runs", ()))
    trained = {canonical(made): made for made in read if _stage(made) in TRAINED}
    trainings = [_training(made) for made in trained.values()]
    taken = sum(made.get("seconds", 0) for made in trained.values()) / 3600
    machines = "; ".join(dict.fromkeys(row[-1] for row in trainings)) or NOT_RECORDED
    return "\n\n".join(
        [
            f"### Profile {name}",
            f"{len(trained)} trainings, {taken:.1f} hours, on {machines}.",
            table(TRAININGS, trainings),
            table(PAGES, pages),
        ]
    )


def _page(name: str, run: dict) -> tuple[str, ...]:
    """A line of the table of pages, from what was published of one."""
    date, *where = _made(run, "date")
    read = str(len(run["runs"])) if "runs" in run else NOT_RECORDED
    return name, date, read, *where


def _stage(made: dict) -> str:
    return made.get("ingredients", {}).get("stage", {}).get("name", "")


def _training(made: dict) -> tuple[str, ...]:
    """A line of the table of trainings, from the record of one."""
    config = made["ingredients"]["config"]
    text = config.get("text", config)  # a model of source text names that of a translation model
    training, size = config.get("training", {}), text.get("size", {})
    known = (
        TRAINED[_stage(made)],
        text.get("corpus"),
        training.get("seed"),
        size.get("width"),
        training.get("updates"),
    )
    started, *where = _made(made, "started")
    hours = f"{made['seconds'] / 3600:.2f}" if "seconds" in made else NOT_RECORDED
    told = (NOT_RECORDED if each is None else str(each) for each in known)
    return (*told, started, hours, *where)


def _made(run: dict, when: str) -> tuple[str, str, str]:
    """When, from which commit, and on which machine."""
    from headbook.chapters.results import machine  # with pandas, which building a book needs late

    hardware = run.get("hardware")
    where = machine(hardware) if hardware else NOT_RECORDED
    return str(run.get(when, NOT_RECORDED)), str(run.get("commit", NOT_RECORDED)), where
