"""Numbers and verdicts in prose: written into the sources, and checked against published results.

``{n}`66 % [63, 69] <best[firefox-en-pt; verb → object].value:%ci>` `` is a number and the cell it
comes from (`headbook.cells`); ``{claim}`voita-f1-a: replicated; voita-f1-b: mixed` `` names claims
with their verdicts. What is shown is written by `headbook numbers`, never by hand.
"""

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

from headbook import cells, paths
from headbook.types import UserError

ROLE = re.compile(r"(?<!`)\{(?P<role>n|claim)\}`(?P<text>[^`]+)`")
NUMBER = re.compile(r"(?P<shown>.*?)\s*<(?P<reference>.+)>", re.DOTALL)
PAGE = re.compile(r"(\d\d)_")


def number(text: str, page: str = "", root: Path | None = None) -> tuple[str, str, cells.Cell]:
    """What a role `n` shows, its reference, and the cell. UserError for a faulty reference."""
    if not (match := NUMBER.fullmatch(text.strip())):
        raise UserError(f"{text!r} names no cell: write {{n}}`<table[key; key].column:format>`")
    shown, reference = (re.sub(r"[ \n]+", " ", match[name]) for name in ("shown", "reference"))
    return shown, reference, cells.cell(cells.parse(reference, page), root)


def claims(text: str, verdicts: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Id, stated verdict and current verdict of each claim that a role `claim` names.

    UserError for an id that is not in the ledger.
    """
    for each in text.split(";"):
        identifier, _, stated = (" ".join(part.split()) for part in each.partition(":"))
        if identifier not in verdicts:
            near = ", ".join(get_close_matches(identifier, verdicts, n=3)) or "add it to the ledger"
            raise UserError(f"no claim {identifier!r} in data/claims.yml: {near}")
        yield identifier, stated, verdicts[identifier]


def page_of(name: str) -> str:
    """The number of a page by the name of its notebook, folders and all; empty for other texts."""
    found = PAGE.match(name.rpartition("/")[2])
    return found[1] if found else ""


def rewritten(text: str, page: str, verdicts: Mapping[str, str], root: Path | None = None) -> str:
    """The text with the current number or verdict in each of its roles; others stay as they are.

    `verdicts` are those of every claim by its id. UserError for the first role that names nothing.
    """

    def current(match: re.Match[str]) -> str:
        if match["role"] == "claim":
            found = list(claims(match["text"], verdicts))
            if all(stated == verdict for _, stated, verdict in found):
                return match[0]
            return "{claim}`" + "; ".join(f"{name}: {now}" for name, _, now in found) + "`"
        shown, reference, cell = number(match["text"], page, root)
        return match[0] if shown == cell.text else f"{{n}}`{cell.text} <{reference}>`"

    return ROLE.sub(current, text)


def sources() -> list[Path]:
    """All notebooks, then all texts of the book."""
    texts = sorted(each for where in ("*.md", "parts/*.md") for each in paths.BOOK.glob(where))
    return [*sorted(paths.NOTEBOOKS.glob("*.ipynb")), *texts]


def update(
    path: Path, verdicts: Mapping[str, str], *, write: bool = True, root: Path | None = None
) -> list[tuple[str, str]]:
    """Write current numbers and verdicts into a notebook's Markdown cells or a text.

    Returns the roles that were out of date, before and after. All else in the file keeps its
    bytes. UserError, naming the file, for a role that cannot be resolved.
    """
    raw = path.read_text("utf-8")
    try:
        if path.suffix != ".ipynb":
            changed = rewritten(raw, "", verdicts, root)
        else:
            notebook = json.loads(raw)
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    source = rewritten("".join(cell["source"]), page_of(path.name), verdicts, root)
                    cell["source"] = source.splitlines(keepends=True)
            changed = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    except UserError as fault:
        raise UserError(f"{path.name}: {fault}") from None
    old, new = ([match[0] for match in ROLE.finditer(text)] for text in (raw, changed))
    stale = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
    if stale and write:
        path.write_text(changed, encoding="utf-8")
    return stale
