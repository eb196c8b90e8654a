"""The generated pages of the book: scorecard, deviations, status."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import yaml

from headbook import paths
from headbook.publishing.notebooks import record_of
from headbook.runs import record
from headbook.types import UserError

BOOK_PACKAGES = ("papermill", "jupyter-book")
PUBLISHED = ("date", "duration", "commit", "hardware")


def write(folder: Path, copies: list[Path]) -> None:
    """Write scorecard.md, deviations.md and status.md; `copies` are the executed notebooks."""
    from headbook.claims import scorecard

    folder.mkdir(parents=True)
    texts = {
        "scorecard": scorecard.page(paths.RESULTS, pages="/_executed"),
        "deviations": deviations(paths.BOOK / "deviations.yml"),
        "status": status(copies, paths.RESULTS),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


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
    """What made this copy of the book: versions, machine, run times, published runs."""
    versions = {"Python": platform.python_version(), **record.versions()}
    versions |= {name: version(name) for name in BOOK_PACKAGES}
    return "\n\n".join(
        [
            "# Status",
            "What made this copy of the book.",
            "## This machine",
            table(("what", "value"), [*record.hardware().items(), ("commit", record.commit())]),
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
    found = sorted(results.glob("*/*/run.json"))
    if not found:
        return "None yet."
    rows = []
    for path in found:
        run = json.loads(path.read_text("utf-8"))
        rows.append((path.parts[-3], path.parts[-2], *(_told(run, field) for field in PUBLISHED)))
    return table(("profile", "study", *PUBLISHED), rows)


def _told(run: dict, field: str) -> str:
    value = run.get(field, "not recorded")
    return ", ".join(f"{v}" for v in value.values()) if isinstance(value, dict) else str(value)
