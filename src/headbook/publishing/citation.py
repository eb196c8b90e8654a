"""Who made the book and how to cite it, from CITATION.cff."""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from headbook import paths

GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


@dataclass(frozen=True)
class Citation:
    """The fields of CITATION.cff that pages show; `doi` and `repository` are empty without one."""

    title: str
    version: str
    licence: str
    authors: tuple[str, ...]
    year: str
    doi: str
    repository: str

    def context(self) -> dict[str, str]:
        """Variables of the book's templates; `github` is owner/name, for Binder and Colab."""
        found = GITHUB.fullmatch(self.repository)
        return {
            "headbook_version": self.version,
            "headbook_licence": self.licence,
            "headbook_authors": ", ".join(self.authors),
            "headbook_repository": self.repository,
            "headbook_github": found[1] if found else "",
        }

    def bibtex(self) -> str:
        """The entry of a bibliography."""
        fields = {
            "title": f"{{{self.title}}}",
            "author": " and ".join(f"{{{name}}}" for name in self.authors),
            "year": self.year,
            "version": self.version,
            "doi": self.doi,
            "url": self.repository,
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join(["@software{headbook,", *lines, "}"])


def citation(file: Path | None = None) -> Citation:
    """CITATION.cff; the repository is that of HEADBOOK_REPOSITORY where it is set."""
    file = file or paths.REPOSITORY / "CITATION.cff"
    fields = yaml.safe_load(file.read_text("utf-8"))
    return Citation(
        fields["title"],
        str(fields["version"]),
        fields["license"],
        tuple(_named(author) for author in fields["authors"]),
        str(fields.get("date-released", ""))[:4],
        str(fields.get("doi", "")),
        paths.repository_address() or fields.get("repository-code", ""),
    )


def _named(author: dict[str, str]) -> str:
    parts = (author.get("given-names"), author.get("family-names"))
    return author.get("name") or " ".join(filter(None, parts))
