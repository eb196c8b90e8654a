"""`hb.view`: attention drawn on a sentence."""

from collections.abc import Mapping, Sequence

import numpy as np

from headbook.looking import pictures
from headbook.looking.attention import Attention, attention
from headbook.models.loaded import Loaded
from headbook.plots.sight import LEAST
from headbook.plots.svg import Drawing
from headbook.plots.tabs import Tabs
from headbook.plots.view import Gold, View, draw, every
from headbook.text.trees import Tree
from headbook.types import Kind, UserError


def view(
    model: Loaded | Attention,
    sentence: str | Tree | np.ndarray | Sequence[str | Tree | np.ndarray] | None = None,
    heads: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    kind: Kind | str | None = None,
    ask: int | str | Sequence[int | str] | None = None,
    gold: Gold | Mapping[str, Gold] | None = None,
    units: str = "words",
    layout: str = "arcs",
    least: float | int = LEAST,
) -> View | Tabs | Drawing:
    """Attention of these heads in a sentence: one drawing per head.

    `model` is what `hb.load` returns, or the `Attention` of a sentence, which takes the place of
    both. `heads` are names like "L6H5", or names with a note on each, {"L6H5": "finds objects"};
    without any, every head is shown as a small map and can be chosen. With several sentences, one
    is seen and the others can be chosen. `kind` and `units` are those of `hb.attention`.

    Of a vision transformer the pictures stand one below the other, each beside itself as every head
    sees it, bright where its class token looks.

    `ask` names the words whose attention is drawn, by position from 0 or as written, all by
    default; `gold` pairs of a word that asks and the correct answer, for every head or by head,
    {"L6H5": [("demanded", "talks")]}, drawn dotted: where the largest weight is elsewhere, the
    answer is marked as wrong. `layout` is "arcs", "lines" from word to word, or "matrix", a
    row per word that asks; weights below `least` have no arc and no line.

    UserError for a head that is not there, and for a word that is not there or there twice.
    """
    if sentence is None and not hasattr(model, "weights"):
        raise UserError("there is no sentence; give one after the model")
    if hasattr(model, "grid") and not isinstance(sentence, str):
        if heads is None:
            raise UserError("name the heads to be drawn on a picture, such as L1H1")
        return pictures.view(model, sentence, [heads] if isinstance(heads, str) else heads)
    seen = model if sentence is None else attention(model, sentence, units=units, kind=kind)
    if not hasattr(seen, "weights"):  # of several sentences
        how = {"ask": ask, "gold": gold, "layout": layout, "least": least}
        named = map(_text, sentence)
        return Tabs(
            {each: view(one, heads=heads, **how) for each, one in zip(named, seen, strict=True)}
        )
    if heads is None:
        return every(seen, least=least)
    names = [heads] if isinstance(heads, str) else list(heads)
    notes = heads if isinstance(heads, Mapping) else {}
    labels = {name: f"{name} {notes.get(name, '')}".strip() for name in names}
    if isinstance(gold, Mapping):
        gold = {labels[name]: pairs for name, pairs in gold.items() if name in labels}
    return draw(
        seen.words,
        {label: seen[name] for name, label in labels.items()},
        keys=seen.keys,
        ask=[ask] if isinstance(ask, int | str) else ask,
        gold=gold or (),
        layout=layout,
        least=least,
    )


def _text(sentence: str | Tree) -> str:
    return sentence.text if isinstance(sentence, Tree) else sentence
