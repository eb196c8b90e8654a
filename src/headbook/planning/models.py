"""The catalogue as a list: every model of the book, its published results, where it is."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headbook import paths, tables
from headbook.artefacts.catalogue import catalogue, kind_of, recipe, select, weights_folder
from headbook.artefacts.encoders import ENCODER
from headbook.artefacts.language import LANGUAGE
from headbook.artefacts.model import TRAINED
from headbook.artefacts.recipe import Recipe, Task
from headbook.claims.gates import SMALL_BLEU, moved
from headbook.claims.published import Evidence
from headbook.released import catalogue as released
from headbook.runs.canonical import canonical
from headbook.runs.store import Store

Row = dict[str, str]
COLUMNS = ("name", "kind", "models", "size", "corpus", "BLEU", "converged", "weights")
HEADER: Row = {column: column for column in COLUMNS}
UNKNOWN = "–"
TRAINED_PAGE, RELEASED_PAGE = "10", "20"


@dataclass(frozen=True)
class Known:
    """The published results by model: BLEU and convergence of those trained here, others' BLEU."""

    bleu: Mapping[str, float]
    converged: Mapping[str, str]
    released: Mapping[str, float]

    @classmethod
    def read(cls) -> "Known":
        cased = tables.typed(TRAINED_PAGE, "bleu").query("casing == 'cased'")
        first = cased.groupby("model", sort=False)["score"].first()
        evidence = Evidence(paths.RESULTS / "laptop")
        converged = {}
        for name in first.index:
            change = moved(name, evidence)
            converged[name] = UNKNOWN if change is None else "yes" if change < SMALL_BLEU else "no"
        return cls(first.to_dict(), converged, _released())


def _released() -> dict[str, float]:
    """BLEU of released models, on the longest text it was measured on."""
    if "wholes" not in tables.entries(RELEASED_PAGE):
        return {}
    rows = tables.typed(RELEASED_PAGE, "wholes")
    scored = rows.dropna(subset="bleu").sort_values("sentences")
    return {row.model: row.bleu for row in scored.itertuples()}


def lines(names: Sequence[str] = (), store: Store | None = None) -> Iterator[str]:
    """The list as it is printed; of named families, model by model. UserError for unknown names."""
    known, here = Known.read(), _trained(store or Store.default())
    if names:
        rows = [_row(name, [name], known, here) for name in select(names)]
    else:
        rows = [_released_row(entry, known) for entry in released.catalogue().values()]
        rows += [_row(name, models, known, here) for name, models in _families().items()]
    widths = {column: max(len(row[column]) for row in [*rows, HEADER]) for column in HEADER}
    for row in (HEADER, *rows):
        yield "  ".join(row[column].ljust(width) for column, width in widths.items()).rstrip()


def _families() -> dict[str, list[str]]:
    """The names of all models of every family, further seeds among them."""
    found: dict[str, list[str]] = {}
    for each in catalogue().values():
        found.setdefault(each.family, []).extend(each.names())
    return found


def _trained(store: Store) -> set[str]:
    """Configs of all trainings in the store."""
    stages = (TRAINED, LANGUAGE, ENCODER)
    return {canonical(made["config"]) for stage in stages for _, made in store.finished(stage)}


def _released_row(entry: released.Entry, known: Known) -> Row:
    bleu = known.released.get(entry.name)
    return {
        "name": entry.name, "kind": entry.kind, "models": "1",
        "size": entry.title.rpartition(": ")[2], "corpus": "its publisher's",
        "BLEU": UNKNOWN if bleu is None else f"{bleu:.1f}", "converged": "yes",
        "weights": released.place(entry),
    }  # fmt: skip


def _row(name: str, models: Sequence[str], known: Known, here: set[str]) -> Row:
    recipes = [recipe(each) for each in models]
    configs = [canonical(each.run) for each in recipes]
    count = sum(
        config in here or weights_folder(each).is_dir()
        for each, config in zip(models, configs, strict=True)
    )
    return {
        "name": name, "kind": kind_of(models[0]), "models": str(len(models)),
        "size": _once(_size(each) for each in recipes),
        "corpus": _once(each.corpus for each in recipes),
        "BLEU": _range([known.bleu[each] for each in models if each in known.bleu]),
        "converged": _once([known.converged[each] for each in models if each in known.converged]),
        "weights": "not here" if not count else "here" if count == len(models) else f"{count} here",
    }  # fmt: skip


def _size(each: Recipe) -> str:
    heads = f"{each.size.layers} × {each.size.heads} heads, width {each.size.width}"
    return heads if each.task is not Task.TRANSLATION else f"{each.size.layers} + {heads}"


def _once(values: Iterable[str]) -> str:
    """The value that all have; of several, how many there are; unknown without any."""
    different = list(dict.fromkeys(values)) or [UNKNOWN]
    return different[0] if len(different) == 1 else f"{len(different)} different"


def _range(scores: Sequence[float]) -> str:
    if not scores:
        return UNKNOWN
    low, high = f"{min(scores):.1f}", f"{max(scores):.1f}"
    return low if low == high else f"{low} to {high}"
