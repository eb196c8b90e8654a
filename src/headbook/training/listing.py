"""The catalogue as a list: every model of the book, its published BLEU, whether it is here."""

from collections.abc import Iterable, Iterator, Sequence

from headbook import tables
from headbook.recipes import catalogue, select, weights_folder
from headbook.released import catalogue as released
from headbook.runs.store import Store
from headbook.training.models import run
from headbook.training.train import folder_of

COLUMNS = ("name", "models", "size", "corpus", "BLEU", "weights")


def lines(names: Sequence[str] = ()) -> Iterator[str]:
    """The list as it is printed; of named families, model by model. UserError for unknown names.

    A family of models, such as one recipe's seeds, is one line.
    """
    bleu, families, rows = published_bleu(), {}, [COLUMNS]
    for each in catalogue().values():
        families.setdefault(each.family, []).extend(each.names())
    if names:
        families = {name: [name] for name in select(names)}
    else:
        for entry in released.catalogue().values():
            size, place = entry.title.rpartition(": ")[2], released.place(entry)
            rows.append(
                (entry.name, "1", size, "its publisher's", _scores([entry.name], bleu), place)
            )
    rows += [_row(name, models, bleu) for name, models in families.items()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def missing(names: Sequence[str]) -> list[str]:
    """The models of these names and families, or of all, whose training the run store lacks."""
    store = Store.default()
    chosen = select(names or [each.family for each in catalogue().values()])
    return [name for name in chosen if folder_of(run(name), store) is None]


def published_bleu() -> dict[str, float]:
    """BLEU by model: of those trained here on their first test set, of released ones on page 20."""
    wholes = tables.typed("20", "wholes").dropna(subset="bleu").sort_values("sentences")
    cased = tables.typed("10", "bleu").query("casing == 'cased'")
    known = dict(zip(wholes["model"], wholes["bleu"], strict=True))
    return known | cased.groupby("model", sort=False)["score"].first().to_dict()


def _row(name: str, models: Sequence[str], bleu: dict[str, float]) -> tuple[str, ...]:
    runs, away = [run(each) for each in models], missing(models)
    here = sum(each not in away or weights_folder(each).is_dir() for each in models)
    shapes = (each.text.size for each in runs)
    sizes = (f"{each.layers} × {each.heads} heads, width {each.width}" for each in shapes)
    where = "not here" if not here else "here" if here == len(models) else f"{here} here"
    corpora = (each.text.corpus for each in runs)
    return name, str(len(models)), _once(sizes), _once(corpora), _scores(models, bleu), where


def _scores(models: Iterable[str], bleu: dict[str, float]) -> str:
    return _once(f"{bleu[each]:.1f}" for each in models if each in bleu)


def _once(values: Iterable[str]) -> str:
    """The value that all have; of several, how many there are; a dash without any."""
    different = list(dict.fromkeys(values)) or ["–"]
    return different[0] if len(different) == 1 else f"{len(different)} different"
