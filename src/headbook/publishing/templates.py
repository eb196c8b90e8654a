"""The notebook templates: which there are, and the parameters each declares."""

import ast
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import nbformat
import yaml

from headbook import paths
from headbook.types import UserError


@dataclass(frozen=True)
class Template:
    """One notebook without outputs; `parameters` are the defaults that its cell declares."""

    name: str
    path: Path
    parameters: dict[str, object]


def templates(folder: Path | None = None) -> list[Template]:
    """Every notebook of the folder in reading order; UserError when there is none."""
    folder = folder or paths.NOTEBOOKS
    found = sorted(path for path in folder.glob("*.ipynb") if not path.name.startswith("."))
    if not found:
        raise UserError(f"no notebooks in {folder}: restore them with git checkout notebooks")
    return [read(path) for path in found]


def read(path: Path) -> Template:
    """The template in one file; UserError when it is no notebook or declares no parameters."""
    try:
        notebook = nbformat.read(path, as_version=4)
    except (ValueError, OSError) as error:
        raise UserError(f"{path} is not a readable notebook: {error}") from error
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        raise UserError(f"{path} has {len(cells)} cells tagged `parameters`: it needs exactly one")
    try:
        return Template(path.stem, path, literals(cells[0].source))
    except (ValueError, SyntaxError) as error:
        raise UserError(f"{path}: parameters are plain literals, {error}") from error


def literals(source: str) -> dict[str, object]:
    """Values assigned by `name = literal` lines; ValueError for any other statement."""
    declared = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                declared[name] = ast.literal_eval(value)
            case _:
                raise ValueError(f"line {statement.lineno} is not `name = literal`")
    return declared


def select(names: list[str] | None, folder: Path | None = None) -> list[Template]:
    """The templates called by name or by number (`12`), all for None; UserError for a stranger."""
    known = templates(folder)
    if names is None:
        return known
    chosen = {_called(name, known).name for name in names}
    return [template for template in known if template.name in chosen]


def _called(name: str, known: list[Template]) -> Template:
    stem = Path(name).stem
    for template in known:
        number, _, study = template.name.partition("_")
        if stem in (template.name, number, number.lstrip("0"), study):
            return template
    names = [template.name for template in known]
    near = get_close_matches(stem, names, n=3, cutoff=0.4) or names
    raise UserError(f"no notebook is called {name!r}: try {', '.join(near)}")


def check(template: Template, parameters: dict[str, object]) -> None:
    """Refuse a parameter the template does not declare; UserError names those it does."""
    unknown = [name for name in parameters if name not in template.parameters]
    if unknown:
        raise UserError(
            f"{template.name} has no parameter {', '.join(map(repr, unknown))}: "
            f"it knows {', '.join(template.parameters)}"
        )


def parameters_for(template: Template, purpose: str) -> dict[str, object]:
    """The page's parameters in notebooks/parameters/<purpose>.yml (smoke or publish), by number."""
    file = paths.NOTEBOOKS / "parameters" / f"{purpose}.yml"
    entries = yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}
    number = template.name.partition("_")[0].lstrip("0")
    return {str(page): given for page, given in entries.items()}.get(number, {})
