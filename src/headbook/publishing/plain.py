"""Texts of pages as plain Markdown, for notebooks that readers download.

Jupyter, VS Code and others know neither the book's boxes nor its roles, and show their sources.
"""

import re
from functools import cache

from headbook import paths
from headbook.book.numbers import NUMBER, ROLE, page_of

BOX = re.compile(r"^:::\{\w+\} ([^\n]*)\n(?::class: [^\n]*\n)?(.*?)^:::$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\{(?:doc|ref)\}`(?:([^<`]+?)\s*<[^`]*>|([^`]*))`")
CITED = re.compile(r"\{cite(:t)?\}`([^`]+)`")


def plain(text: str) -> str:
    """The text without roles and boxes.

    Numbers and verdicts lose their references, links their targets; works are named by authors and
    year; a box is a quotation under its title.
    """
    text = ROLE.sub(_value, text)
    text = LINK.sub(lambda link: link[1] or _page(link[2]), text)
    text = CITED.sub(_works, text)
    return BOX.sub(_quotation, text)


def _value(role: re.Match[str]) -> str:
    if role["role"] == "n":
        return NUMBER.fullmatch(role["text"].strip())["shown"]
    return f"({', '.join(each.partition(':')[2].strip() for each in role['text'].split(';'))})"


def _page(name: str) -> str:
    return f"page {page_of(name)}" if page_of(name) else name.rpartition("/")[2].replace("_", " ")


def _works(role: re.Match[str]) -> str:
    works = [_authors()[key.strip()] for key in role[2].split(",")]
    inside = "{} {}" if not role[1] else "{} ({})"
    named = "; ".join(inside.format(*work) for work in works)
    return named if role[1] else f"({named})"


def _quotation(box: re.Match[str]) -> str:
    lines = [f"**{box[1]}**", "", *box[2].strip().splitlines()]
    return "\n".join(f"> {line}".rstrip() for line in lines)


@cache
def _authors() -> dict[str, tuple[str, str]]:
    """Authors and year of every work of the bibliography, by its key."""
    from pybtex.database import parse_file  # which building a book needs late

    found = {}
    for key, work in parse_file(str(paths.BOOK / "references.bib")).entries.items():
        persons = work.persons.get("author", ())
        names = [" ".join(each.last_names).strip("{}") for each in persons]
        many = len(names) > 2 or "others" in names
        authors = f"{names[0]} et al." if many else " and ".join(names)
        found[key] = authors or work.fields["title"], work.fields.get("year", "n.d.")
    return found
