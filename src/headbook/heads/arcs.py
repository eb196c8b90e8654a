"""From parsed sentences to questions put to a head: which word asks, which word is the answer.

Attention to a word is the sum over its pieces, from a word the mean (Clark et al. 2019); Voita et
al. do not say. EOS is no word and no answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headbook.heads.recording import Recording, once
from headbook.text.batches import Batch
from headbook.text.trees import RELATION_DIRECTIONS, RELATIONS, Direction
from headbook.types import UserError

NO_WORD = -1
"""The word of a piece, or unit, that belongs to none."""


@runtime_checkable
class Aligned(Protocol):
    """A parse laid on the pieces of its sentence.

    `pieces` holds each piece's word, NO_WORD for EOS at the end; `arcs` has rows of (relation in
    RELATIONS, dependent word, head word).
    """

    pieces: Int[Tensor, " piece"]
    arcs: Int[Tensor, "arc 3"]


@dataclass(frozen=True)
class Questions:
    """One batch's questions: in sentence `row`, word `index` asks for word `partner`.

    `column` is the place in RELATION_DIRECTIONS.
    """

    row: Int[Tensor, " question"]
    index: Int[Tensor, " question"]
    partner: Int[Tensor, " question"]
    column: Int[Tensor, " question"]
    sentences: int

    def counted(self) -> Float[Tensor, "batch column"]:
        """Number of questions of each sentence in each relation-direction."""
        return self.tally(torch.ones_like(self.row, dtype=torch.float64))

    def tally(self, values: Float[Tensor, "question ..."]) -> Float[Tensor, "batch column ..."]:
        """Sums of the questions' values by sentence and relation-direction."""
        columns = len(RELATION_DIRECTIONS)
        sums = values.new_zeros(self.sentences * columns, *values.shape[1:])
        sums.index_add_(0, self.row * columns + self.column, values)
        return sums.unflatten(0, (self.sentences, columns))


def asked_of(
    tape: Recording, trees: Sequence[Aligned], batch: Batch
) -> tuple[Int[Tensor, "batch piece"], Questions]:
    """The word of every piece, and the batch's questions."""
    return once(
        tape,
        (questions, id(trees)),
        lambda: (pieces_of(trees, batch), questions(trees, batch)),
    )


def pieces_of(trees: Sequence[Aligned], batch: Batch) -> Int[Tensor, "batch piece"]:
    """The word of every source token; NO_WORD at EOS and padding."""
    rows = [trees[sentence].pieces for sentence in batch.sentences.tolist()]
    for sentence, row, length in zip(
        batch.sentences.tolist(), rows, batch.source_mask.sum(1).tolist(), strict=True
    ):
        if len(row) != length:
            raise UserError(
                f"parse of sentence {sentence}: {len(row)} pieces where the corpus has {length}; "
                "align the parses with the subwords of this run"
            )
    padded = pad_sequence(rows, batch_first=True, padding_value=NO_WORD)
    missing = batch.source.shape[1] - padded.shape[1]
    return torch.nn.functional.pad(padded, (0, missing), value=NO_WORD).to(batch.source.device)


def questions(trees: Sequence[Aligned], batch: Batch) -> Questions:
    """Both directions of every arc of the batch's sentences. Each arc is a question of its own: a
    noun with two adjectives asks twice, and its head can answer only once."""
    row, relation, dependent, head = _arcs(trees, batch)
    asked = []
    for column, (name, direction) in enumerate(RELATION_DIRECTIONS):
        ends = (head, dependent) if direction is Direction.HEAD_TO_DEPENDENT else (dependent, head)
        here = relation == RELATIONS.index(name)
        asked.append(torch.stack([row, *ends, torch.full_like(row, column)])[:, here])
    row, query, partner, column = torch.cat(asked, dim=1)
    return Questions(row, query, partner, column, len(batch))


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


def _arcs(trees: Sequence[Aligned], batch: Batch) -> Int[Tensor, "4 arc"]:
    """Sentence row, relation, dependent, head of every arc in the batch."""
    rows = [trees[sentence].arcs for sentence in batch.sentences.tolist()]
    numbers = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(row) for row in rows]))
    arcs = torch.cat([row.reshape(-1, 3) for row in rows])
    return torch.cat([numbers[:, None], arcs], dim=1).T.to(batch.source.device)
