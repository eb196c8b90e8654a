"""`hb.attention`: the attention of every head in sentences, between words or between tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Regex, pre_tokenizers
from torch import Tensor
from tqdm import tqdm

from headbook.heads.arcs import beside, word_attention
from headbook.heads.collect import recordings
from headbook.looking.naming import first_kind, place, shape_of
from headbook.looking.text import Text
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.text.alignment import NO_WORD, align_all
from headbook.text.trees import ROOT, Tree
from headbook.types import Kind, UserError

LETTERS = r"[\w&&[^\p{Han}]]+"
WORDS = Regex(rf"\p{{Han}}|{LETTERS}(?:(?:['’]|(?<=\d)[.,](?=\d)){LETTERS})*|(?!\s)\X")
"""Words of a sentence without a tree: don't, 1,000.5, one Chinese character, one sign or emoji."""
SPLIT = pre_tokenizers.Split(WORDS, "removed", invert=True)
START = "▸"
"""The symbol that a translator's decoder reads before its first token."""


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention of all heads in one sentence.

    `words` ask and `keys` are looked at (the same, except in cross-attention). `weights` are
    [layer, head, word, key]: from a word the mean over its tokens, to a word the sum over its
    tokens (Clark et al. 2019). Special tokens are left out, so a row sums to less than 1 by what
    rests on them. `pieces` counts each word's tokens; a word without any has zeros. Between tokens
    `special` marks those that ask and stand for no text, such as EOS and [CLS]. `a["L6H5"]` and
    `a[5, 4]` are the matrix [word, key] of the fifth head in the sixth layer. Where layers of
    a pruned model differ in their number of heads, missing heads are NaN.
    """

    words: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Float[np.ndarray, "layer head word key"]
    kind: Kind
    pieces: Int[np.ndarray, " word"]
    special: Bool[np.ndarray, " word"]

    def __getitem__(self, head: str | tuple[int, int]) -> Float[np.ndarray, "word key"]:
        layers, heads = self.weights.shape[:2]
        at = place(head, {self.kind: [heads] * layers})[1:] if isinstance(head, str) else head
        return self.weights[at]


def attention(
    model: Loaded,
    text: Text | str | Tree | np.ndarray | Sequence[str | Tree | np.ndarray | tuple],
    units: str = "words",
    kind: Kind | str | None = None,
) -> Attention | list[Attention]:
    """Attention of every head in a sentence, or in each sentence of a text.

    `text` is a sentence or a tree, which gives one `Attention`; or several of them, or what
    `hb.text` returns, which gives a list. With `units="tokens"` the model's own tokens take the
    place of words, special ones among them, and rows sum to 1. A sentence without a tree is split
    at spaces and punctuation.

    Of a model that sees, `text` is a picture, uint8 [height, width, 3], or a list of them, and its
    special tokens and patches take the place of words, row by row. Of one that hears it is a sound
    with what is said in it, or a list of such pairs, with tokens and frames of 20 ms.

    `kind` is encoder, decoder or cross; by default the encoder, or the decoder where there is none.
    Decoder and cross-attention of a translation model are those of its own greedy translation: in
    the decoder a token asks when it is read (the first is ▸, the start), in cross-attention when it
    is predicted.

    UserError for a kind that the model lacks, other units, and a text without words.
    """
    if units not in ("words", "tokens"):
        raise UserError(f"units is {units!r}; use words or tokens")
    kinds = list(shape_of(model.network))
    kind = first_kind(kinds) if kind is None else kind
    if kind not in kinds:
        raise UserError(f"{model.name} has no {kind} attention; it has {', '.join(kinds)}")
    if hasattr(model, "units"):
        several = isinstance(text, list)
        found = [_sensed(model, each, Kind(kind)) for each in (text if several else [text])]
        return found if several else found[0]
    single = isinstance(text, str | Tree)
    if isinstance(text, Text):
        text = text.trees or text.sentences
    trees = tuple(map(_tree, [text] if single else text))
    if not all(trees) or not trees:
        raise UserError("no words to attend to: give sentences that are not empty")
    found = _read(model, trees, Kind(kind), units)
    return found[0] if single else found


@torch.inference_mode()
def _sensed(model: Any, given: Any, kind: Kind) -> Attention:
    """Attention between the units of one input that is no text."""
    batch, (asks, keys) = model.batch([given]), model.units(given, kind)
    with capture(model.network, {Point.WEIGHTS}, [kind]) as tape:
        model.network(batch)
    weights = torch.cat(tape[kind, Point.WEIGHTS])[:, :, : len(asks), : len(keys)]
    special = np.array([each.startswith("<|") for each in asks])
    pieces = np.ones(len(asks), int)
    return Attention(tuple(asks), tuple(keys), weights.cpu().numpy(), kind, pieces, special)


def _tree(sentence: str | Tree) -> Tree:
    if isinstance(sentence, Tree):
        return sentence
    words = tuple(span for _, span in SPLIT.pre_tokenize_str(sentence))
    return Tree(sentence, words, (ROOT,) * len(words), ("",) * len(words))


@dataclass(frozen=True)
class _Side:
    """One side of attention in a sentence: its units as text, and the unit of every token."""

    units: tuple[str, ...]
    pieces: Int[Tensor, " token"]
    special: Bool[np.ndarray, " unit"]

    @classmethod
    def of(
        cls, model: Loaded, tree: Tree, units: str, target: bool = False, read: bool = False
    ) -> "_Side":
        """The source; or the translation, predicted or `read` by the decoder, one token later."""
        spans = model.spans(tree.text, target)
        if units == "tokens":
            names = model.pieces(tree.text, target)
            names = [START, *names[:-1]] if read else names
            marks = [span is None for span in ([None, *spans[:-1]] if read else spans)]
            return cls(tuple(names), torch.arange(len(names)), np.array(marks, bool))
        pieces = align_all(tree, spans).pieces
        pieces = torch.cat([pieces.new_tensor([NO_WORD]), pieces[:-1]]) if read else pieces
        return cls(tree.forms, pieces, np.zeros(len(tree), bool))


@torch.inference_mode()
def _read(model: Loaded, trees: Sequence[Tree], kind: Kind, units: str) -> list[Attention]:
    """Attention in these sentences, read in batches."""
    sentences, targets, shape = [tree.text for tree in trees], None, shape_of(model.network)
    keys = [_Side.of(model, tree, units) for tree in trees]
    asks = keys
    if kind is not Kind.ENCODER and Kind.CROSS in shape:
        targets = model.translate(sentences)
        asks = [_Side.of(model, _tree(each), units, True, kind is Kind.DECODER) for each in targets]
        keys = keys if kind is Kind.CROSS else asks
    found: dict[int, Attention] = {}
    batches = model.batches(sentences, targets, 1024)
    show = partial(tqdm, desc="attention", leave=False, delay=5)
    for tape, batch in recordings(model.network, batches, progress=show):
        rows, layers = batch.sentences.tolist(), []
        for weights in tape[kind, Point.WEIGHTS]:
            queries, looked = (
                beside([sides[row].pieces for row in rows], size).to(weights.device)
                for sides, size in zip((asks, keys), weights.shape[2:], strict=True)
            )
            layers.append(word_attention(weights[:, None], looked, queries)[:, 0].cpu().numpy())
        for at, row in enumerate(rows):
            own = [layer[at] for layer in layers]
            found[row] = _attention(kind, asks[row], keys[row], shape[kind], own)
    return [found[row] for row in range(len(trees))]


def _attention(
    kind: Kind,
    asking: _Side,
    looked: _Side,
    heads: Sequence[int],
    layers: Sequence[Float[np.ndarray, "_ _ _"]],
) -> Attention:
    """One sentence's part of a batch; `layers` leave out those of no head."""
    size = len(asking.units), len(looked.units)
    weights = np.full((len(heads), max(heads), *size), np.nan, "float32")
    given = iter(layers)
    for own, count in zip(weights, heads, strict=True):
        some = next(given)[:, : size[0], : size[1]] if count else np.zeros((0, 0, 0))
        own[:count] = 0
        own[:count, : some.shape[1], : some.shape[2]] = some
    counts = np.bincount(asking.pieces[asking.pieces != NO_WORD], minlength=size[0])
    return Attention(asking.units, looked.units, weights, kind, counts, asking.special)
