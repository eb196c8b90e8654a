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
    return Template(path.stem, path, _declared(path, notebook))


def _declared(path: Path, notebook: nbformat.NotebookNode) -> dict[str, object]:
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        raise UserError(f"{path} has {len(cells)} cells tagged `parameters`: it needs exactly one")
    try:
        return literals(cells[0].source)
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
        number = template.name.split("_")[0]
        if stem in (template.name, number, number.lstrip("0"), template.name.split("_", 1)[1]):
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


def has_moved(template: Template) -> bool:
    """Whether the notebook itself measures what it shows: no module of a chapter belongs to it."""
    from headbook.chapters.chapter import module_of

    return module_of(template.name) is None


def of_profile(template: Template, profile: str) -> dict[str, object]:
    """The page's parameters at a profile; none where it has no entry.

    They stand in notebooks/profiles/<profile>.yml by the page's name; those of a page that has
    moved in notebooks/parameters/<profile>.yml (smoke or publish) by its number.
    """
    number = template.name.partition("_")[0]
    moved = {str(page).zfill(2): entry for page, entry in _entries(profile, "parameters").items()}
    return moved.get(number) or _entries(profile).get(template.name, {})


def as_yaml(template: Template, profile: str | None = None) -> str:
    """The page's parameters, those of a profile in the place of its own, as papermill's -f reads
    them; UserError for a profile without a file.

    Only a profile with trained models is one that pages about such models can name.
    """
    parameters = dict(template.parameters)
    if profile is not None:
        entries = _entries(profile)
        if not (entries or _entries(profile, "parameters")):
            known = sorted({each.stem for each in paths.NOTEBOOKS.glob("p*/*.yml")})
            raise UserError(f"no profile is called {profile!r}: give one of {', '.join(known)}")
        if "profile" in parameters and "trained" in entries:
            parameters["profile"] = profile
        parameters |= of_profile(template, profile)
    return yaml.safe_dump(parameters, sort_keys=False)


def _entries(profile: str, kind: str = "profiles") -> dict[str | int, dict[str, object]]:
    """What the file of a profile says, by page; nothing where there is no file."""
    file = paths.NOTEBOOKS / kind / f"{profile}.yml"
    return (yaml.safe_load(file.read_text("utf-8")) if file.exists() else {}) or {}
