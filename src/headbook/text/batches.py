"""Batches of sentence pairs: bucketed by exact length, counted in tokens, padded and masked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

PAD, EOS, UNK = 0, 1, 2
"""Reserved ids. The decoder starts from PAD, whose embedding is the zero vector, as in the paper's
code; there is no BOS."""

EncodedPair = tuple[Sequence[int], Sequence[int]]
"""Source and target ids of one pair, both ending in EOS."""


@dataclass(frozen=True)
class Batch:
    """Padded sentence pairs.

    `source` ends in EOS; `target_in` is `target_out` shifted right behind a start token (PAD's zero
    vector); `sentences` holds each row's index in the corpus, so that parses can be looked up.

    The other fields are for models with ids of their own: which places hold a real token, and which
    of these stand for no text (EOS, [CLS], [SEP], a language's code). Where they are None, our own
    ids decide: PAD is no token, EOS at the end and the start token at the front are special.
    """

    source: Int[Tensor, "batch source"]
    target_in: Int[Tensor, "batch target"]
    target_out: Int[Tensor, "batch target"]
    sentences: Int[Tensor, " batch"]
    source_real: Bool[Tensor, "batch source"] | None = None
    source_special: Bool[Tensor, "batch source"] | None = None
    target_real: Bool[Tensor, "batch target"] | None = None
    input_special: Bool[Tensor, "batch target"] | None = None
    output_special: Bool[Tensor, "batch target"] | None = None

    @property
    def source_mask(self) -> Bool[Tensor, "batch source"]:
        """True at real tokens, special ones included."""
        return self.source != PAD if self.source_real is None else self.source_real

    @property
    def target_mask(self) -> Bool[Tensor, "batch target"]:
        """True where a token, EOS included, is to be predicted; the same places of `target_in`."""
        return self.target_out != PAD if self.target_real is None else self.target_real

    @property
    def source_boundary(self) -> Bool[Tensor, "batch source"]:
        """True at the special tokens of the source: each sentence's EOS, by our own ids."""
        return last(self.source_mask) if self.source_special is None else self.source_special

    @property
    def input_boundary(self) -> Bool[Tensor, "batch target"]:
        """True at the special tokens that the decoder reads: the start token, by our own ids."""
        if self.input_special is not None:
            return self.input_special
        return (torch.arange(self.target_in.shape[1], device=self.target_in.device) == 0).expand(
            self.target_in.shape
        )

    @property
    def output_boundary(self) -> Bool[Tensor, "batch target"]:
        """True where a special token is to be predicted: EOS, by our own ids."""
        return last(self.target_mask) if self.output_special is None else self.output_special

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str) -> "Batch":
        return self._changed(lambda tensor: tensor.to(device))

    def select(self, rows: slice | Shaped[Tensor, " row"]) -> "Batch":
        """Only the given rows, by slice, index or mask; padding stays."""
        return self._changed(lambda tensor: tensor[rows])

    def _changed(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        given = {name: each for name, each in vars(self).items() if each is not None}
        return replace(self, **{name: change(each) for name, each in given.items()})


def last(mask: Bool[Tensor, "batch token"]) -> Bool[Tensor, "batch token"]:
    """True at each row's last True, for masks that are True from the left."""
    return mask & ~torch.nn.functional.pad(mask[:, 1:], (0, 1), value=False)


def pad(rows: Sequence[Sequence[int]]) -> Int[Tensor, "batch length"]:
    """Rows of unequal length as one matrix, filled with PAD on the right."""
    length = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows], dtype=torch.long)


def collate(pairs: Sequence[EncodedPair], sentences: Sequence[int]) -> Batch:
    target_out = pad([target for _, target in pairs])
    start = torch.full((len(pairs), 1), PAD)
    return Batch(
        source=pad([source for source, _ in pairs]),
        target_in=torch.cat([start, target_out[:, :-1]], dim=1),
        target_out=target_out,
        sentences=torch.tensor(sentences, dtype=torch.long),
    )


def bucket(pairs: Sequence[EncodedPair], tokens: int, order: Sequence[int]) -> list[list[int]]:
    """Groups sentence indices of like length into batches of at most `tokens` padded tokens a side.

    Sentences are sorted by (target length, source length), ties in the given order, and cut where
    one more would pass `tokens`; a single sentence longer than `tokens` is a batch of its own.
    """
    by_length = sorted(order, key=lambda index: (len(pairs[index][1]), len(pairs[index][0])))
    batches: list[list[int]] = []
    widest = 0
    for index in by_length:
        width = max(widest, len(pairs[index][0]), len(pairs[index][1]))
        if batches and width * (len(batches[-1]) + 1) <= tokens:
            batches[-1].append(index)
            widest = width
        else:
            batches.append([index])
            widest = max(len(pairs[index][0]), len(pairs[index][1]))
    return batches


Collate = Callable[[Sequence[EncodedPair], Sequence[int]], Batch]
"""One batch from encoded pairs and their indices in the corpus."""


def in_order(
    pairs: Sequence[EncodedPair], tokens: int, collate: Collate = collate
) -> Iterator[Batch]:
    """All pairs once, for measuring and scoring, in length buckets."""
    for indices in bucket(pairs, tokens, range(len(pairs))):
        yield collate([pairs[index] for index in indices], indices)


def epoch(pairs: Sequence[EncodedPair], tokens: int, seed: int, number: int) -> list[list[int]]:
    """The index batches of one training epoch: the same for the same seed and epoch number."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + number)
    shuffled = torch.randperm(len(pairs), generator=generator).tolist()
    batches = bucket(pairs, tokens, shuffled)
    return [batches[index] for index in torch.randperm(len(batches), generator=generator).tolist()]
