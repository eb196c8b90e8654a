"""Who made the book and how to cite it, from CITATION.cff."""

import re

import yaml

from headbook import paths

GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")


def citation() -> dict[str, str]:
    """What pages and templates show; `doi` and `repository` are empty where there is none.

    The repository is that of HEADBOOK_REPOSITORY where it is set; `github` is its owner/name, for
    Binder and Colab.
    """
    fields = yaml.safe_load((paths.REPOSITORY / "CITATION.cff").read_text("utf-8"))
    repository = paths.repository_address() or fields.get("repository-code", "")
    found = GITHUB.fullmatch(repository)
    return {
        "title": fields["title"],
        "version": str(fields["version"]),
        "licence": fields["license"],
        "authors": ", ".join(map(_named, fields["authors"])),
        "year": str(fields["date-released"])[:4],
        "doi": str(fields.get("doi", "")),
        "repository": repository,
        "github": found[1] if found else "",
    }


def _named(author: dict[str, str]) -> str:
    return author.get("name") or f"{author['given-names']} {author['family-names']}"
