"""`hb.attention`: the attention of every head in sentences, between words or between tokens."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from headbook.artefacts.texts import Text
from headbook.heads.arcs import PieceRule, word_attention
from headbook.looking.naming import first_kind, place
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded, Span
from headbook.syntax.alignment import NO_WORD, align_all
from headbook.trees import ROOT, Tree
from headbook.types import Kind, UserError

AT_ONCE = 64
"""Sentences that are read together."""
WORDS = re.compile(r"\w+(?:['’]\w+)?|[^\w\s]")
"""Words of a sentence that comes without a tree."""
START = "▸"
"""The symbol that a translator's decoder reads before its first token."""


@dataclass(frozen=True)
class Attention:
    """Attention of all heads in one sentence.

    `words` ask and `keys` are looked at (the same, except in cross-attention). `weights` are
    [layer, head, word, key]: from a word the mean over its tokens, to a word the sum over its
    tokens (Clark et al. 2019). Special tokens are left out, so a row sums to less than 1 by what
    rests on them. `pieces` counts each word's tokens; a word without any has zeros. `a["L6H5"]`
    and `a[5, 4]` are the matrix [word, key] of the fifth head in the sixth layer.
    """

    words: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Float[np.ndarray, "layer head word key"]
    kind: Kind
    pieces: Int[np.ndarray, " word"]

    def __getitem__(self, head: str | tuple[int, int]) -> Float[np.ndarray, "word key"]:
        layers, heads = self.weights.shape[:2]
        at = place(head, {self.kind: [heads] * layers})[1:] if isinstance(head, str) else head
        return self.weights[at]


@dataclass(frozen=True)
class Attentions(Sequence):
    """Attention in several sentences, computed when it is asked for, in the sentences' order."""

    model: Loaded
    sentences: tuple[Tree, ...]
    kind: Kind
    units: str

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, number: int) -> Attention:
        return _read(self.model, [self.sentences[number]], self.kind, self.units)[0]

    def __iter__(self) -> Iterator[Attention]:
        parts = range(0, len(self), AT_ONCE)
        for at in tqdm(parts, "attention", leave=False, delay=5):
            some = self.sentences[at : at + AT_ONCE]
            yield from _read(self.model, some, self.kind, self.units)


def attention(
    model: Loaded,
    text: Text | str | Tree | Sequence[str | Tree],
    units: str = "words",
    kind: Kind | str | None = None,
) -> Attention | Attentions:
    """Attention of every head in a sentence, or in each sentence of a text.

    `text` is a sentence or a tree, which gives one `Attention`; or several of them, or what
    `hb.text` returns, which gives a sequence of `Attention`. With `units="tokens"` the model's own
    tokens take the place of words, special ones among them, and rows sum to 1. `kind` is encoder,
    decoder or cross; by default the encoder, or the decoder where there is none. Decoder and
    cross-attention of a translation model are those of its own greedy translation.

    UserError for a kind that the model lacks, other units, and a text without sentences.
    """
    if units not in ("words", "tokens"):
        raise UserError(f"units is {units!r}; use words or tokens")
    kinds = {each for each, _, _ in model.network.attentions()}
    kind = first_kind(kinds) if kind is None else Kind(kind)
    if kind not in kinds:
        raise UserError(f"{model.name} has no {kind} attention; it has {', '.join(sorted(kinds))}")
    if isinstance(text, str | Tree):
        return _read(model, [_tree(text)], kind, units)[0]
    if isinstance(text, Text):
        text = text.trees or text.sentences
    sentences = tuple(map(_tree, text))
    if not sentences:
        raise UserError("the text has no sentence")
    return Attentions(model, sentences, kind, units)


def _tree(sentence: str | Tree) -> Tree:
    if isinstance(sentence, Tree):
        return sentence
    words = tuple(match.span() for match in WORDS.finditer(sentence))
    return Tree(sentence, words, (ROOT,) * len(words), ("",) * len(words))


@dataclass(frozen=True)
class _Side:
    """One side of attention in a sentence: its units as text, and the unit of every token."""

    units: tuple[str, ...]
    pieces: Int[Tensor, " token"]

    @classmethod
    def of(cls, model: Loaded, tree: Tree, units: str, shifted: bool | None = None) -> "_Side":
        """Of the source; or of a translation, whose tokens the decoder reads one later."""
        target = shifted is not None
        spans: list[Span | None] = model.spans(tree.text, target)
        names = model.pieces(tree.text, target)
        if shifted:
            spans, names = [None, *spans[:-1]], [START, *names[:-1]]
        if units == "tokens":
            return cls(tuple(names), torch.arange(len(names)))
        if shifted:  # the last token is not read
            covered = max((span[1] for span in spans if span), default=0)
            kept = [span for span in tree.words if span[0] < covered]
            tree = Tree(tree.text[:covered], *_unparsed(kept, covered))
        return cls(tree.forms, align_all(tree, spans).pieces)


def _unparsed(words: Sequence[Span], end: int) -> tuple:
    cut = tuple((start, min(stop, end)) for start, stop in words)
    return cut, (ROOT,) * len(cut), ("",) * len(cut)


def _read(model: Loaded, trees: Sequence[Tree], kind: Kind, units: str) -> list[Attention]:
    """Attention in these sentences, read in batches, one layer's token weights at a time."""
    sentences, targets = [tree.text for tree in trees], None
    keys = [_Side.of(model, tree, units) for tree in trees]
    asks = keys
    if kind is not Kind.ENCODER and model.languages[1] is not None:
        targets = model.translate(sentences)
        translated = [_tree(target) for target in targets]
        asks = [_Side.of(model, each, units, kind is Kind.DECODER) for each in translated]
        keys = keys if kind is Kind.CROSS else asks
    found: dict[int, Attention] = {}
    model.network.eval()
    for batch in model.batches(sentences, targets, 2048):
        rows = batch.sentences.tolist()
        sides = [(asks[row], keys[row]) for row in rows]
        batch = batch.to(next(model.network.parameters()).device)
        keep = _between(sides)
        with torch.inference_mode(), capture(model.network, {Point.WEIGHTS}, {kind}, keep) as tape:
            model.network(batch)
        layers = tape[kind, Point.WEIGHTS]
        for at, (row, (asking, looked)) in enumerate(zip(rows, sides, strict=True)):
            some = torch.stack([layer[at] for layer in layers]).cpu().numpy()
            weights = np.zeros((*some.shape[:2], len(asking.units), len(looked.units)), "float32")
            shared = some[:, :, : weights.shape[2], : weights.shape[3]]
            weights[:, :, : shared.shape[2], : shared.shape[3]] = shared
            count = np.bincount(
                asking.pieces[asking.pieces != NO_WORD], minlength=len(asking.units)
            )
            found[row] = Attention(asking.units, looked.units, weights, kind, count)
    return [found[row] for row in range(len(trees))]


def _between(sides: Sequence[tuple[_Side, _Side]]) -> Callable[[Tensor], Tensor]:
    """From one layer's weights between tokens, [batch head query key], to those between units."""

    def keep(weights: Tensor) -> Tensor:
        queries, keys = (
            _padded([pair[at].pieces for pair in sides], weights.shape[2 + at]).to(weights.device)
            for at in (0, 1)
        )
        return word_attention(weights[:, None], keys, None, PieceRule.SUM, queries)[:, 0]

    return keep


def _padded(rows: Sequence[Int[Tensor, " token"]], width: int) -> Int[Tensor, "batch token"]:
    found = torch.full((len(rows), width), NO_WORD)
    for row, pieces in zip(found, rows, strict=True):
        row[: len(pieces)] = pieces
    return found
