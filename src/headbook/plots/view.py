"""All heads of a model in a few sentences: one head as lines, every head as a small map.

The page holds a still picture of one head as plain SVG. Its script takes up the weights of all
heads when the view comes into sight; nothing is loaded from elsewhere, and without a script, and on
paper, the still picture stays.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float

from headbook.heads.norms import value_norms
from headbook.heads.outputs import output_parts
from headbook.models.capture import Point, Tape, capture
from headbook.models.loaded import Loaded
from headbook.plots.palette import KINDS
from headbook.types import Kind, UserError

ROW, LEFT, RIGHT, WIDE, LONG = 24, 125, 285, 410, 14
"""Units of the picture: height of a token, where lines begin and end, width; letters of a token."""
FAINT = 0.02
"""Weights below this are not drawn as lines."""
START = "▸"
"""Stands for the start symbol that a decoder reads before its first token."""


@dataclass(frozen=True)
class Seen:
    """One kind of attention in one sentence; tokens as text, and which of them are special.

    `norms` holds ‖f(x_j)‖ of every key (see heads/norms.py), None where they are out of reach.
    """

    sentence: str
    kind: Kind
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    special_queries: tuple[bool, ...]
    special_keys: tuple[bool, ...]
    weights: Float[np.ndarray, "layer head query key"]
    norms: Float[np.ndarray, "layer head key"] | None = None


@dataclass(frozen=True)
class Series:
    """Sentences of one model and kind of attention; `first` is the layer and head shown first."""

    name: str
    sentences: tuple[Seen, ...]
    first: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class HeadView:
    """The interactive view; the first series' first sentence and head are the still picture.

    UserError for no series and for a series without a sentence.
    """

    series: tuple[Series, ...]
    alt: str

    def __post_init__(self) -> None:
        if not self.series or not all(each.sentences for each in self.series):
            raise UserError("a view of heads needs a model and a sentence at least")

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """One element with its style and script."""
        data = json.dumps([_encoded(each) for each in self.series], ensure_ascii=False)
        first = self.series[0]
        page = files("headbook.plots").joinpath("view.html").read_text("utf-8")
        parts = {
            "NAME": f"view-{sha256(data.encode()).hexdigest()[:8]}",
            "ALT": escape(self.alt, quote=True),
            "COLOUR": KINDS[Kind.ENCODER],
            "PICTURE": _picture(first.sentences[0], *first.first),
            "SAID": f"{escape(first.name)}, layer {first.first[0]}, head {first.first[1]}.",
            "DATA": data.replace("<", "\\u003c"),
            "ROW": str(ROW),
            "LEFT": str(LEFT),
            "RIGHT": str(RIGHT),
            "WIDE": str(WIDE),
            "LONG": str(LONG),
            "FAINT": str(FAINT),
        }
        for name, text in parts.items():
            page = page.replace(f"__{name}__", text)
        return page


def view(series: Sequence[Series], alt: str) -> HeadView:
    """All heads of these models and sentences; `alt` says what is shown."""
    return HeadView(tuple(series), alt)


def series_of(
    model: Loaded, sentences: Sequence[str], name: str, first: tuple[int, int] = (1, 1)
) -> list[Series]:
    """One series per kind of attention; a translation model translates the sentences itself."""
    translations: Sequence[str | None] = [None] * len(sentences)
    if any(kind is Kind.CROSS for kind, _, _ in model.network.attentions()):
        translations = model.translate(sentences)
    pairs = zip(sentences, translations, strict=True)
    by_kind = zip(*(seen(model, *pair) for pair in pairs), strict=True)
    return [Series(f"{name}, {group[0].kind}", group, first if not at else (1, 1))
            for at, group in enumerate(by_kind)]  # fmt: skip


def short_sentences(
    model: Loaded, sentences: Sequence[str], count: int, shortest: int, longest: int
) -> list[str]:
    """The first that have so many tokens; the shortest of all where there is none."""
    fitting = (each for each in sentences if shortest <= len(model.pieces(each)) <= longest)
    return list(islice(fitting, count)) or [min(sentences, key=len)]


@torch.inference_mode()
def seen(model: Loaded, sentence: str, translation: str | None = None) -> list[Seen]:
    """Every kind of attention of a model in one sentence, in the order of its blocks.

    Decoder and cross-attention of a translation model need the `translation`; without one they are
    left out. Queries of cross-attention are the tokens that are predicted.
    """
    kinds = list(dict.fromkeys(kind for kind, _, _ in model.network.attentions()))
    translates = Kind.CROSS in kinds
    if translates and translation is None:
        kinds = [Kind.ENCODER]
    targets = None if not translates or translation is None else [translation]
    (batch,) = model.batches([sentence], targets)
    with capture(model.network, {Point.WEIGHTS, Point.VALUES}) as tape:
        model.network(batch.to(next(model.network.parameters()).device))
    source = _tokens(model, sentence)
    found = []
    for kind in kinds:
        queries = keys = source
        if translates and kind is not Kind.ENCODER:
            queries = _tokens(model, str(translation), target=True)
        if translates and kind is Kind.DECODER:
            queries = keys = [(START, True), *queries[:-1]]
        weights = np.stack([each[0].float().cpu().numpy() for each in tape[kind, Point.WEIGHTS]])
        if weights.shape[2:] != (len(queries), len(keys)):
            raise UserError(
                f"{model.name}: {len(queries)} and {len(keys)} tokens, but weights of "
                f"{weights.shape[2:]}"
            )
        (asking, special_queries), (asked, special_keys) = (
            zip(*queries, strict=True),
            zip(*keys, strict=True),
        )
        found.append(Seen(sentence, kind, asking, asked, special_queries, special_keys, weights,
                          _norms(model, kind, tape)))  # fmt: skip
    return found


def _tokens(model: Loaded, sentence: str, target: bool = False) -> list[tuple[str, bool]]:
    """Each token as text, and whether it is special."""
    given = {"target": True} if target else {}
    spans = model.spans(sentence, **given)
    pieces = [piece.replace("▁", " ").strip() or "▁" for piece in model.pieces(sentence, **given)]
    return [(piece, span is None) for piece, span in zip(pieces, spans, strict=True)]


def _norms(model: Loaded, kind: Kind, tape: Tape) -> np.ndarray | None:
    try:
        parts = output_parts(model.network, kind)
    except UserError:
        return None
    if (kind, Point.VALUES) not in tape:
        return None
    layers = zip(tape[kind, Point.VALUES], parts, strict=True)
    norms = [value_norms(values, part)[0].float().cpu() for values, part in layers]
    return torch.stack(norms).numpy()


def _encoded(series: Series) -> dict[str, object]:
    """The data that the script reads."""
    first = series.sentences[0]
    layers, heads = first.weights.shape[:2]
    return {
        "name": series.name, "kind": str(first.kind), "layers": layers, "heads": heads,
        "first": list(series.first), "norms": all(each.norms is not None
                                                   for each in series.sentences),
        "sentences": [_sentence(each) for each in series.sentences],
    }  # fmt: skip


def _sentence(given: Seen) -> dict[str, object]:
    found = {
        "sentence": given.sentence, "queries": given.queries, "keys": given.keys,
        "specialQueries": [int(each) for each in given.special_queries],
        "specialKeys": [int(each) for each in given.special_keys],
        "weights": _rooted(given.weights),
    }  # fmt: skip
    if given.norms is not None:
        # Shares of a row do not change when all norms of a head are divided by one number.
        largest = given.norms.max(-1, keepdims=True).clip(min=1e-12)
        found["norms"] = _rooted(given.norms / largest)
    return found


def _rooted(values: np.ndarray) -> str:
    """Square roots as bytes: a weight of 0.001 is still told from 0.002."""
    return base64.b64encode(np.rint(255 * np.sqrt(values)).astype(np.uint8).tobytes()).decode()


def _picture(given: Seen, layer: int, head: int) -> str:
    """One head as lines from the tokens that look to those they look at."""
    weights = given.weights[layer - 1, head - 1]
    height = ROW * max(weights.shape) + 8
    lines = "".join(
        f'<line x1="{LEFT}" x2="{RIGHT}" y1="{ROW * query + 15}" y2="{ROW * key + 15}" '
        f'stroke-width="{0.6 + 3.4 * weight:.1f}" stroke-opacity="{max(0.08, weight):.2f}"/>'
        for (query, key), weight in np.ndenumerate(weights)
        if weight >= FAINT
    )
    left = _column(given.queries, given.special_queries, f'x="{LEFT - 8}" text-anchor="end"')
    right = _column(given.keys, given.special_keys, f'x="{RIGHT + 8}"')
    alt = escape(f"Attention of layer {layer}, head {head} in: {given.sentence}", quote=True)
    return (
        f'<svg class="view-lines" viewBox="0 0 {WIDE} {height}" role="img" aria-label="{alt}">'
        f"<g>{lines}</g><g>{left}</g><g>{right}</g></svg>"
    )


def _column(tokens: Sequence[str], special: Sequence[bool], place: str) -> str:
    short = [each if len(each) <= LONG else f"{each[: LONG - 1]}…" for each in tokens]
    return "".join(
        f'<text {place} y="{ROW * at + 20}"{_class(special[at])}>{escape(token)}</text>'
        for at, token in enumerate(short)
    )


def _class(special: bool) -> str:
    return ' class="special"' if special else ""
