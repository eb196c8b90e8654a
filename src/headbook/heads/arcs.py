"""From parsed sentences to questions put to a head: which word asks, which word is the answer.

Attention to a word is the sum over its pieces, from a word the mean (Clark et al. 2019); Voita et
al. do not say. EOS is no word and no answer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headbook.heads.tokens import counted_keys
from headbook.text.alignment import NO_WORD, AlignedTree
from headbook.text.batches import Batch
from headbook.text.trees import RELATION_DIRECTIONS, RELATIONS, Direction
from headbook.types import Kind, UserError


class Questions(NamedTuple):
    """In sentence `row`, `word` asks for `partner`; `column` is in RELATION_DIRECTIONS."""

    row: Int[Tensor, " question"]
    word: Int[Tensor, " question"]
    partner: Int[Tensor, " question"]
    column: Int[Tensor, " question"]

    def to(self, device: torch.device) -> "Questions":
        return Questions(*(each.to(device) for each in self))


def questions(trees: Sequence[AlignedTree], causal: bool = False) -> Questions:
    """Both directions of every arc. Each arc is a question of its own: a noun with two adjectives
    asks twice, and its head can answer only once. `causal`, the end that comes later asks alone.
    """
    sizes = torch.tensor([len(tree.arcs) for tree in trees], dtype=torch.long)
    row = torch.arange(len(trees)).repeat_interleave(sizes)
    relation, dependent, head = torch.cat([tree.arcs for tree in trees]).T
    asked = []
    for column, (name, direction) in enumerate(RELATION_DIRECTIONS):
        ends = (head, dependent) if direction is Direction.HEAD_TO_DEPENDENT else (dependent, head)
        here = relation == RELATIONS.index(name)
        if causal:
            here = here & (ends[0] > ends[1])
        asked.append(torch.stack([row, *ends, torch.full_like(row, column)])[:, here])
    return Questions(*torch.cat(asked, dim=1))


def tally(
    asked: Questions, values: Float[Tensor, "question ..."], sentences: int
) -> Float[Tensor, "sentence column ..."]:
    """Sums of the questions' values by sentence and relation-direction."""
    columns = len(RELATION_DIRECTIONS)
    sums = values.new_zeros(sentences * columns, *values.shape[1:])
    sums.index_add_(0, asked.row * columns + asked.column, values)
    return sums.unflatten(0, (sentences, columns))


def pieces_of(
    trees: Sequence[AlignedTree], batch: Batch, kind: Kind = Kind.ENCODER
) -> Int[Tensor, "batch piece"]:
    """The word of every token that is looked at, NO_WORD at special tokens and padding.

    UserError where a tree has another number of pieces than its sentence.
    """
    keys = counted_keys(batch, kind, boundary=True)
    numbers, lengths = batch.sentences.tolist(), keys.sum(1).tolist()
    rows = [trees[number].pieces for number in numbers]
    for number, row, length in zip(numbers, rows, lengths, strict=True):
        if len(row) != length:
            raise UserError(
                f"parse of sentence {number}: {len(row)} pieces where the corpus has {length}; "
                "align the parses with the subwords of this run"
            )
    return beside(rows, keys.shape[1]).to(keys.device)


def beside(rows: Sequence[Int[Tensor, " _"]], width: int) -> Int[Tensor, "batch width"]:
    """The words of each sentence's tokens as rows of a batch so wide, NO_WORD at padding."""
    longest = torch.full((width,), NO_WORD)
    return pad_sequence([*rows, longest], batch_first=True, padding_value=NO_WORD)[:-1]


def word_attention(
    weights: Float[Tensor, "batch layer head query key"],
    pieces: Int[Tensor, "batch piece"],
    asking: Int[Tensor, "batch query"] | None = None,
) -> Float[Tensor, "batch layer head word other"]:
    """Attention between words, from that between pieces.

    `pieces` are the words of the keys, and of the queries where `asking` does not say otherwise.
    """
    keys = _belongs(pieces)
    queries = keys if asking is None else _belongs(asking)
    queries = queries / queries.sum(-1, keepdim=True).clamp(min=1)
    _, layer, head, query, _ = weights.shape
    to_words = weights.flatten(1, 3).to(keys.dtype) @ keys.mT
    by_query = to_words.unflatten(1, (layer * head, query)).transpose(1, 2)
    words = (queries @ by_query.flatten(2)).unflatten(2, (layer, head, -1))
    return words.movedim(1, 3)


def _belongs(pieces: Int[Tensor, "batch piece"]) -> Float[Tensor, "batch word piece"]:
    """1 at the pieces of a word."""
    numbers = torch.arange(int(pieces.max()) + 1, device=pieces.device)
    return (pieces[:, None, :] == numbers[:, None]).float()
