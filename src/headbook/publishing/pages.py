"""The generated pages: scorecard, every head, interface, deviations, changelog, status, cite."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import yaml

from headbook import paths
from headbook.publishing.citation import Citation, citation
from headbook.publishing.contents import record_of
from headbook.runs import record

BOOK_PACKAGES = ("papermill", "jupyter-book", "transformers", "pyarrow")


def write(folder: Path, copies: list[Path]) -> None:
    """Write every generated page as NAME.md; `copies` are the executed notebooks."""
    from headbook.claims import board, scorecard
    from headbook.publishing import heads, interface

    folder.mkdir(parents=True)
    texts = {
        "scorecard": board.page(scorecard.current(), "../_executed"),
        "heads": heads.page(),
        "interface": interface.page(),
        "deviations": deviations(paths.BOOK / "deviations.yml"),
        "changelog": (paths.REPOSITORY / "CHANGELOG.md").read_text("utf-8"),
        "cite": cite(citation()),
        "status": status(copies),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def cite(source: Citation) -> str:
    """How to cite the book, from CITATION.cff."""
    version = f"Version {source.version}, commit {record.commit()}"
    parts = [", ".join(source.authors), source.year, f"*{source.title}*", version]
    address = f"https://doi.org/{source.doi}" if source.doi else source.repository
    where = f"<{address}>" if address else ""
    return "\n\n".join(
        [
            "# Cite this book",
            ". ".join(filter(None, [*parts, where])) + ".",
            f"```bibtex\n{source.bibtex()}\n```",
            "Please cite, too, the works whose claims a page tests; {doc}`/references` lists all.",
            f"Text and code are under the [{source.licence} licence](../_static/LICENSE.txt). "
            "Corpora and released models have licences of their own, which `data/corpora.toml` and "
            "`data/models.toml` of the repository name.",
            "",
        ]
    )


def deviations(register: Path) -> str:
    """The register of deviations as a page: a section for each, a line for each of its fields."""
    entries = yaml.safe_load(register.read_text("utf-8"))
    opening = "# Deviations\n\nWhere this book departs from the papers, and why. "
    opening += "An entry that names no paper is about Voita et al. 2019.\n"
    return "\n".join([opening, *(_deviation(entry) for entry in entries)])


def _deviation(entry: dict[str, str]) -> str:
    lines = [f"(deviation-{entry['id']})=", f"## {entry['id']}: {entry['title']}"]
    for field in ("paper", "ours", "why"):
        lines.append(f"\n**{field.capitalize()}.** {entry[field].strip()}")
    return "\n".join(lines) + "\n"


def status(copies: list[Path]) -> str:
    """Provenance of this copy of the book: versions, machine, run times.

    What made a published table stands at the end of its page.
    """
    versions = {"Python": platform.python_version(), **record.versions()}
    versions |= {name: version(name) for name in BOOK_PACKAGES}
    return "\n\n".join(
        [
            "# Status",
            "Versions, machine and runs behind this copy of the book. Recorded numbers were "
            "measured before, some on other machines: the end of each page says where.",
            "## This machine",
            table(("property", "value"), [*record.hardware().items(), ("commit", record.commit())]),
            "## Versions",
            table(("package", "version"), list(versions.items())),
            "## Pages",
            table(("page", "changed parameters", "seconds"), [_run_time(copy) for copy in copies]),
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
        return f"[](../_executed/{copy.name})", "executed by hand", "unknown"
    made = json.loads(record.read_text("utf-8"))
    given = json.dumps(made["parameters"]) if made["parameters"] else ""
    return f"[](../_executed/{copy.name})", given, f"{made['seconds']:.0f}"
