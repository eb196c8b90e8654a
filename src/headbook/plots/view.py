"""Attention between words, drawn on the sentence: as arcs, from line to line, or as a matrix.

Inline SVG in the colour of the text around it; a script only where one of all heads is chosen.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from operator import index

import numpy as np
from jaxtyping import Float

from headbook.plots.palette import SERIES
from headbook.plots.picture import picture
from headbook.plots.sight import FAINT, LEAST, THICK, THIN, Number, Scene, Sight
from headbook.plots.svg import with_plain
from headbook.types import UserError

LONGEST = 22
"""Letters of a word that is not cut."""
PHONE = 330
"""Pixels of a drawing that is right on a phone, too."""
LAYOUTS = ("arcs", "lines", "matrix")
HEAD = re.compile(r"[Ll](\d+)\s*[Hh](\d+)")

Gold = Sequence[tuple[int | str, int | str]]
Matrix = Float[np.ndarray, "word key"]


@dataclass(frozen=True)
class View:
    """A drawing of attention; `alt` says in words what it shows."""

    alt: str
    body: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        """One element with its style; heads are chosen in a form, apart from those of others."""
        whole = f'<style>{_file("view.css")}</style><form method="dialog">{self.body}</form>'
        if "<fieldset" in self.body:
            whole += f"<script>{_file('view.js')}</script>"
        return (
            f'<div class="headbook-view" role="group" aria-label="{escape(self.alt)}">{whole}</div>'
        )


def draw(
    words: Sequence[str],
    weights: Mapping[str, Matrix],
    *,
    keys: Sequence[str] | None = None,
    ask: Sequence[int | str] | None = None,
    gold: Gold | Mapping[str, Gold] = (),
    layout: str = "arcs",
    least: Number = LEAST,
) -> View:
    """One drawing per label of `weights`, [asking word, key]; `keys` are the words by default.

    `ask` names the words that ask, by position or as written, all by default; `gold` pairs of an
    asking word and the right answer, drawn dotted, or such pairs by label. Where keys are other
    words, or the layout is "lines", lines go from words on the left to keys on the right; "matrix"
    has a row per word that asks and a column per key.

    UserError for another layout, weights of another shape, and a word that is not there or there
    twice.
    """
    words = list(map(_clean, words))
    keys = words if keys is None else list(map(_clean, keys))
    if layout not in LAYOUTS:
        raise UserError(f"layout is {layout!r}; use {', '.join(LAYOUTS)}")
    for label, each in weights.items():
        if np.shape(each) != (len(words), len(keys)):
            raise UserError(
                f"{label}: weights of {np.shape(each)} for {len(words)} words and {len(keys)} keys"
            )
    asking = range(len(words)) if ask is None else [_place(words, each) for each in ask]
    golden = dict(gold) if isinstance(gold, Mapping) else dict.fromkeys(weights, gold)
    layout = "lines" if layout == "arcs" and words != keys else layout
    parts, told, wrong = [], [], False
    for label, colour in zip(weights, _colours(list(weights)), strict=True):
        matrix = np.asarray(weights[label], float)
        answers: dict[int, list[int]] = {}
        for one, other in golden.get(label, ()):
            answers.setdefault(_place(words, one), []).append(_place(keys, other))
        wrong |= any(matrix[asks].argmax() not in right for asks, right in answers.items())
        sight = Sight(words, keys, matrix, asking, answers, least, colour)
        parts.append(_one(label, sight, layout))
        told.append(f"{label}: {said}" if (said := sight.said()) else label)
    body = f'<div class="beside">{"".join(parts)}</div>'
    if wrong:  # elsewhere the head's own arc covers it
        body += '<p class="said"><small>dotted: the correct answer</small></p>'
    return View(f"Attention in “{' '.join(words)}”. {'; '.join(told)}", body)


def _one(label: str, sight: Sight, layout: str) -> str:
    """A drawing under its label; arcs above a line of words stand beside a column on a phone."""
    alt = f"Attention of {label} in: {' '.join(sight.words)}"
    forms = {"arcs": partial(sight.arcs, not sight.fits()), "lines": sight.lines}
    scene = forms.get(layout, sight.matrix)()
    drawn, name = _box(scene, alt), "one"
    if layout == "arcs" and sight.fits() and scene.width > PHONE:
        drawn += sight.arcs(upright=True).svg(alt, "narrow")
        name = "one level"
    drawn = with_plain(drawn, alt)
    head, note = _split(label)
    return (
        f'<div class="{name}"><p class="said"><i style="background:{sight.colour}"></i>'
        f"<b>{escape(head)}</b> {escape(note.strip())} <span>{escape(sight.said())}</span></p>"
        f"{drawn}</div>"
    )


def _box(scene: Scene, alt: str) -> str:
    return f'<div class="box">{scene.svg(alt, "wide")}</div>'


def every(attention: object, least: Number = LEAST) -> View:
    """Every head of one sentence as a small map, and one of them, to be chosen, as lines.

    `attention` has `words`, `keys` and `weights` [layer, head, word, key]. The head whose words are
    surest where they look is shown first, and stays without a script.
    """
    words, keys = (list(map(_clean, each)) for each in (attention.words, attention.keys))
    weights = np.asarray(attention.weights, float)
    layers, heads = weights.shape[:2]
    layer, head = divmod(int(weights.max(-1).mean(-1).argmax()), heads)
    first, colour = f"L{layer + 1}H{head + 1}", SERIES[0]
    name = sha256(weights.tobytes()).hexdigest()[:8]
    scene = Sight(words, keys, weights[layer, head], range(len(words)), {}, least, colour).lines(
        every=True
    )
    maps = []
    for layer in range(layers):
        maps.append(f"<small>{layer + 1}</small>")
        for head in range(heads):
            this, roots = f"L{layer + 1}H{head + 1}", np.sqrt(weights[layer, head])
            coded = base64.b64encode(np.rint(255 * roots).astype(np.uint8).tobytes()).decode()
            maps.append(
                f'<label title="{this}"><input type="radio" name="{name}" value="{this}"'
                f'{" checked" * (this == first)} disabled data-roots="{coded}">'
                f'<img alt="{this}" src="{picture(roots, colour)}"></label>'
            )
    alt = f"Attention of {first} in: {' '.join(words)}"
    return View(
        f"{alt}; {layers} layers of {heads} heads to choose from.",
        f'<div class="beside"><div class="one"><p class="said" aria-live="polite"><i '
        f'style="background:{colour}"></i><b>{first}</b></p>'
        f"{with_plain(_box(scene, alt), alt)}</div>"
        f'<fieldset class="maps jp-mod-hidden" data-least="{least}" '
        f'aria-label="Head: a row per layer" style="flex-basis:{33 * heads + 20}px;'
        f'grid-template-columns:max-content repeat({heads}, minmax(0, 30px))">'
        f"{''.join(maps)}</fieldset></div>",
    )


def _split(label: str) -> tuple[str, str]:
    """The head that a label names, and the note behind it."""
    end = named.end() if (named := HEAD.search(label)) else len(label)
    return label[:end], label[end:]


def _colours(labels: Sequence[str]) -> list[str]:
    """The same colour for a head in every view, as long as no other head of this one has it."""
    free, found = list(SERIES[:-1]), {}
    heads = [_split(label)[0] for label in labels]
    for number, head in enumerate(dict.fromkeys(heads)):
        named = HEAD.search(head)
        at = int(named[1]) - int(named[2]) if named else number
        fixed = SERIES[at % (len(SERIES) - 1)]
        found[head] = fixed if fixed in free else free[0]
        free.remove(found[head])
        free = free or list(SERIES[:-1])
    return [found[head] for head in heads]


def _file(name: str) -> str:
    text = files("headbook.plots").joinpath(name).read_text("utf-8")
    for name, value in (("THIN", THIN), ("THICK", THICK), ("FAINT", FAINT), ("COLOUR", SERIES[0])):
        text = text.replace(f"__{name}__", str(value))
    return text


def _clean(word: str) -> str:
    """A word or token as a reader expects it, and not longer than a drawing takes."""
    word = " ".join(word.replace("▁", " ").replace("Ġ", " ").split()) or "▁"
    return word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}…"


def _place(words: Sequence[str], given: int | str) -> int:
    if not isinstance(given, str):
        if 0 <= (at := index(given)) < len(words):
            return at
        raise UserError(f"there is no word {given}; the sentence has {len(words)}, from 0")
    found = [n for n, word in enumerate(words) if word == _clean(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{given!r} stands at {', '.join(map(str, found))}; give the position")
    raise UserError(f"{given!r} is not among the words: {' '.join(words)}")
