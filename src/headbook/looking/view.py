"""`hb.view`: attention drawn on a sentence."""

from collections.abc import Mapping, Sequence
from itertools import islice

from headbook.looking.attention import Attention, attention
from headbook.models.loaded import Loaded
from headbook.plots.sight import LEAST
from headbook.plots.view import Gold, View, choice, draw, every
from headbook.text.trees import Tree
from headbook.types import Kind, UserError


def view(
    model: Loaded | Attention,
    sentence: str | Tree | Sequence[str | Tree] | None = None,
    heads: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    kind: Kind | str | None = None,
    ask: int | str | Sequence[int | str] | None = None,
    gold: Gold | Mapping[str, Gold] | None = None,
    units: str = "words",
    layout: str = "arcs",
    least: float | int = LEAST,
) -> View:
    """Attention of these heads in a sentence: one drawing per head.

    `model` is what `hb.load` returns, or the `Attention` of a sentence, which takes the place of
    both. `heads` are names like "L6H5", or names with a note on each, {"L6H5": "finds objects"};
    without any, every head is shown as a small map and can be chosen. With several sentences, one
    is seen and the others can be chosen. `kind` and `units` are those of `hb.attention`.

    `ask` names the words whose attention is drawn, by position from 0 or as written, all by
    default; `gold` pairs of a word that asks and the correct answer, for every head or by head,
    {"L6H5": [("demanded", "talks")]}, drawn dotted: where the largest weight is elsewhere, the
    answer is marked as wrong. `layout` is "arcs", "lines" from
    word to word, or "matrix", a row per word that asks; weights below `least` have no line.

    UserError for a head that is not there, and for a word that is not there or there twice.
    """
    given = {
        "kind": kind,
        "ask": ask,
        "gold": gold,
        "units": units,
        "layout": layout,
        "least": least,
    }
    if sentence is not None and not isinstance(sentence, str | Tree):
        return choice({_text(each): view(model, each, heads, **given) for each in sentence})
    if sentence is None and not hasattr(model, "weights"):
        raise UserError("there is no sentence; give one after the model")
    seen = model if sentence is None else attention(model, sentence, units=units, kind=kind)
    if heads is None:
        return every(seen, least=least)
    names = [heads] if isinstance(heads, str) else list(heads)
    notes = heads if isinstance(heads, Mapping) else {}
    labels = {name: f"{name} {notes.get(name, '')}".strip() for name in names}
    weights = {label: seen[name] for name, label in labels.items()}
    if isinstance(gold, Mapping):
        gold = {labels[name]: pairs for name, pairs in gold.items() if name in labels}
    return draw(
        seen.words,
        weights,
        keys=seen.keys,
        ask=[ask] if isinstance(ask, int | str) else ask,
        gold=gold or (),
        layout=layout,
        least=least,
    )


def of_every_kind(
    model: Loaded, sentences: Sequence[str], first: tuple[int, int] | None = None
) -> dict[str, View]:
    """Every head between the tokens of these sentences, one view per kind of attention.

    `first` is the layer and head, from zero, that the first kind shows first.
    """
    found = {}
    for kind in dict.fromkeys(kind for kind, _, _ in model.network.attentions()):
        seen = attention(model, sentences, units="tokens", kind=kind)
        views = {
            text: every(each, None if found else first)
            for text, each in zip(sentences, seen, strict=True)
        }
        found[str(kind)] = choice(views)
    return found


def short_sentences(
    model: Loaded, sentences: Sequence[str], count: int, shortest: int, longest: int
) -> list[str]:
    """The first that have so many tokens; the shortest of all where there is none."""
    fitting = (each for each in sentences if shortest <= len(model.pieces(each)) <= longest)
    return list(islice(fitting, count)) or [min(sentences, key=len)]


def _text(sentence: str | Tree) -> str:
    return sentence.text if isinstance(sentence, Tree) else sentence
