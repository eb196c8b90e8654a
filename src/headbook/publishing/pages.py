"""The generated pages: scorecard, every head, interface, deviations, changelog, status, cite."""

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import yaml

from headbook import paths
from headbook.claims import board
from headbook.claims.verdict import Result
from headbook.publishing.citation import citation
from headbook.publishing.contents import record_of
from headbook.runs import record

BOOK_PACKAGES = ("papermill", "jupyter-book", "transformers", "pyarrow")


def write(folder: Path, copies: list[Path], results: Mapping[str, Result]) -> None:
    """Write every generated page as NAME.md; `copies` are the executed notebooks."""
    from headbook.publishing import heads, interface

    folder.mkdir(parents=True)
    texts = {
        "scorecard": board.page(results, "../_executed"),
        "heads": heads.page(),
        "interface": interface.page(),
        "deviations": deviations(),
        "changelog": (paths.REPOSITORY / "CHANGELOG.md").read_text("utf-8"),
        "cite": cite(),
        "status": status(copies),
    }
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


def cite() -> str:
    """How to cite the book, from CITATION.cff."""
    source = citation()
    version = f"Version {source['version']}, commit {record.commit()}"
    address = f"https://doi.org/{source['doi']}" if source["doi"] else source["repository"]
    parts = [source["authors"], source["year"], f"*{source['title']}*", version]
    parts += [f"<{address}>"] if address else []
    names = source["authors"].replace(", ", "} and {")
    fields = {"title": f"{{{source['title']}}}", "author": f"{{{names}}}"}
    fields |= {name: source[name] for name in ("year", "version", "doi")}
    fields["url"] = source["repository"]
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    entry = "\n".join(["@software{headbook,", *lines, "}"])
    return (
        f"# Cite this book\n\n{'. '.join(parts)}.\n\n```bibtex\n{entry}\n```\n\n"
        "Please cite, too, the works whose claims a page tests; {doc}`/references` lists all.\n\n"
        f"Text and code are under the [{source['licence']} licence](../_static/LICENSE.txt). "
        "Corpora and released models have licences of their own, which `data/corpora.toml` and "
        "`data/models.toml` of the repository name.\n"
    )


def deviations() -> str:
    """The register of deviations as a page: a section for each, a line for each of its fields."""
    lines = [
        "# Deviations",
        "Where this book departs from the papers, and why. "
        "An entry that names no paper is about Voita et al. 2019.",
    ]
    for entry in yaml.safe_load((paths.BOOK / "deviations.yml").read_text("utf-8")):
        lines.append(f"(deviation-{entry['id']})=\n## {entry['id']}: {entry['title']}")
        for field in ("paper", "ours", "why"):
            lines.append(f"**{field.capitalize()}.** {entry[field].strip()}")
    return "\n\n".join(lines) + "\n"


def status(copies: list[Path]) -> str:
    """Provenance of this copy of the book: versions, machine, run times.

    What made a published table stands at the end of its page.
    """
    versions = {"Python": platform.python_version(), **record.versions()}
    versions |= {name: version(name) for name in BOOK_PACKAGES}
    machine = [*record.hardware().items(), ("commit", record.commit())]
    runs = [_run_time(copy) for copy in copies]
    return (
        "# Status\n\nVersions, machine and runs behind this copy of the book. Recorded numbers "
        "were measured before, some on other machines: the end of each page says where.\n\n"
        f"## This machine\n\n{table(('property', 'value'), machine)}\n\n"
        f"## Versions\n\n{table(('package', 'version'), list(versions.items()))}\n\n"
        f"## Pages\n\n{table(('page', 'changed parameters', 'seconds'), runs)}\n"
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
