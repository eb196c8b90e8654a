"""The catalogue as a list: every model of the book, its published BLEU, whether it is here."""

from collections.abc import Iterable, Iterator, Sequence

from headbook import tables
from headbook.recipes import catalogue, select, weights_folder
from headbook.released import catalogue as released
from headbook.runs.store import Store
from headbook.training.models import run
from headbook.training.train import folder_of

COLUMNS = ("name", "models", "size", "corpus", "BLEU", "weights")
UNKNOWN = "–"


def lines(names: Sequence[str] = ()) -> Iterator[str]:
    """The list as it is printed; of named families, model by model. UserError for unknown names.

    A family of models, such as one recipe's seeds, is one line.
    """
    bleu = published_bleu()
    if names:
        rows = [_row(name, [name], bleu) for name in select(names)]
    else:
        families: dict[str, list[str]] = {}
        for each in catalogue().values():
            families.setdefault(each.family, []).extend(each.names())
        rows = [_released(entry, bleu) for entry in released.catalogue().values()]
        rows += [_row(name, models, bleu) for name, models in families.items()]
    table = [COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def missing(names: Sequence[str]) -> list[str]:
    """The models of these names and families, or of all, whose training the run store lacks."""
    store = Store.default()
    chosen = select(names or [each.family for each in catalogue().values()])
    return [name for name in chosen if folder_of(run(name), store) is None]


def published_bleu() -> dict[str, float]:
    """BLEU by model: of those trained here on their first test set, of released ones on page 20."""
    known = {}
    if "wholes" in tables.entries("20"):
        rows = tables.typed("20", "wholes").dropna(subset="bleu").sort_values("sentences")
        known |= dict(zip(rows["model"], rows["bleu"], strict=True))
    if "bleu" in tables.entries("10"):
        cased = tables.typed("10", "bleu").query("casing == 'cased'")
        known |= cased.groupby("model", sort=False)["score"].first().to_dict()
    return known


def _released(entry: released.Entry, bleu: dict[str, float]) -> tuple[str, ...]:
    size, score = entry.title.rpartition(": ")[2], bleu.get(entry.name)
    shown = UNKNOWN if score is None else f"{score:.1f}"
    return entry.name, "1", size, "its publisher's", shown, released.place(entry)


def _row(name: str, models: Sequence[str], bleu: dict[str, float]) -> tuple[str, ...]:
    runs, away = [run(each) for each in models], missing(models)
    here = sum(each not in away or weights_folder(each).is_dir() for each in models)
    scores = [f"{bleu[each]:.1f}" for each in models if each in bleu]
    shapes = (each.text.size for each in runs)
    sizes = (f"{each.layers} × {each.heads} heads, width {each.width}" for each in shapes)
    return (
        name, str(len(models)), _once(sizes), _once(each.text.corpus for each in runs),
        _once(scores), "not here" if not here else "here" if here == len(models) else f"{here} here"
    )  # fmt: skip


def _once(values: Iterable[str]) -> str:
    """The value that all have; of several, how many there are; unknown without any."""
    different = list(dict.fromkeys(values)) or [UNKNOWN]
    return different[0] if len(different) == 1 else f"{len(different)} different"
