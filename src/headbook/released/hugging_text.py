"""Sentences as a foreign tokenizer cuts them: ids, special tokens, spans and batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headbook.models.loaded import Span
from headbook.released.network import Stacks
from headbook.released.spans import MARK, cover, matched, trimmed
from headbook.text.batches import Batch, bucket
from headbook.types import UserError


@dataclass(frozen=True)
class Encoded:
    """A sentence's ids, and which of them the tokenizer added and stand for no text."""

    ids: list[int]
    special: list[bool]


NOTHING = Encoded([], [])


@dataclass(frozen=True)
class HuggingText:
    """The text side of a model: its tokenizer, the most tokens it takes, its decoder's start.

    `limit` is None where positions are relative and nothing limits a sentence. `start` is the id
    that a decoder's input begins with; where it is None (mBART) the target's last token wraps
    around.
    """

    tokenizer: Any
    stacks: Stacks
    limit: int | None
    padding: int
    start: int | None = None

    def encoded(self, sentence: str, target: bool = False) -> Encoded:
        """The sentence's tokens; UserError where there are more than the model takes, or none."""
        fast = self.tokenizer.is_fast
        given = self._given(
            sentence, target, **({"return_special_tokens_mask": True} if fast else {})
        )
        ids = list(given["input_ids"])
        if not ids or (self.limit is not None and len(ids) > self.limit):
            raise UserError(
                f"{sentence[:60]!r} has {len(ids)} tokens, but the model takes 1 to "
                f"{self.limit or 'any number'}; split the sentence or leave it out"
            )
        if fast:
            return Encoded(ids, [bool(each) for each in given["special_tokens_mask"]])
        bare = list(self._given(sentence, target, add_special_tokens=False)["input_ids"])
        for at in range(len(ids) - len(bare) + 1):
            if ids[at : at + len(bare)] == bare:
                return Encoded(ids, [not 0 <= each - at < len(bare) for each in range(len(ids))])
        raise UserError("the tokenizer changes a sentence's tokens when it adds special ones")

    def _given(self, sentence: str, target: bool, **options: bool) -> Any:
        named = {"text_target" if target else "text": sentence}
        return self.tokenizer(**named, **options, verbose=False)

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        """Each token's characters, without spaces at their ends; None for a special token.

        UserError where neither the tokenizer's offsets nor the text of its pieces cover the
        sentence.
        """
        encoded, spans = self.encoded(sentence, target), None
        if self.tokenizer.is_fast:
            offsets = self._given(sentence, target, return_offsets_mapping=True)["offset_mapping"]
            spans = [trimmed(sentence, (first, last))
                     for (first, last), added in zip(offsets, encoded.special, strict=True)
                     if not added]  # fmt: skip
        # Some releases of fast tokenizers gave wrong offsets: none are taken on trust.
        if spans is None or not cover(sentence, spans):
            spans = matched(sentence, self._texts(sentence, encoded, target))
            if not cover(sentence, spans):
                raise UserError(f"the tokenizer's pieces leave out a part of {sentence[:60]!r}")
        each = iter(spans)
        return [None if added else next(each) for added in encoded.special]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        """The tokens as text, special ones by their name, a space before a piece as ▁."""
        encoded = self.encoded(sentence, target)
        names = self.tokenizer.convert_ids_to_tokens(encoded.ids)
        texts = iter(self._texts(sentence, encoded, target))
        return [
            name if added else next(texts)
            for name, added in zip(names, encoded.special, strict=True)
        ]

    def _texts(self, sentence: str, encoded: Encoded, target: bool) -> list[str]:
        """The text of every piece that is not special, unknown ones as they were written."""
        ids = [each for each, added in zip(encoded.ids, encoded.special, strict=True) if not added]
        names = self.tokenizer.convert_ids_to_tokens(ids)
        if not self.tokenizer.is_fast:
            # A tokenizer in Python cuts the text itself, so its unknown pieces still have their
            # text; it cuts every text as a source.
            cut = [] if target else self.tokenizer.tokenize(sentence)
            return cut if len(cut) == len(names) else names
        # The names of byte-level pieces, as GPT-2's, spell bytes.
        if type(self.tokenizer.backend_tokenizer.decoder).__name__ != "ByteLevel":
            return names
        texts = [self.tokenizer.convert_tokens_to_string([name]) for name in names]
        return [MARK + text[1:] if text.startswith(" ") else text for text in texts]

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None, tokens: int
    ) -> list[Batch]:
        """See `Loaded.batches`. A decoder's sentences are its target, an encoder's the source."""
        if self.stacks is Stacks.BOTH:
            given = [""] * len(sentences) if targets is None else targets
            if len(given) != len(sentences):
                raise UserError(f"{len(sentences)} sentences have {len(given)} targets")
            wanted = [self.encoded(target, target=True) for target in given]
        elif targets is not None:
            raise UserError("this model has one stack and takes no targets; leave them out")
        else:
            wanted = [NOTHING] * len(sentences)
        sources = [self.encoded(sentence) for sentence in sentences]
        lengths = [(one.ids, two.ids) for one, two in zip(sources, wanted, strict=True)]
        return [
            self._batch([sources[at] for at in rows], [wanted[at] for at in rows], rows)
            for rows in bucket(lengths, tokens, range(len(lengths)))
        ]

    def _batch(self, source: list[Encoded], targets: list[Encoded], rows: list[int]) -> Batch:
        if self.stacks is Stacks.DECODER:
            reads, source, predicted = source, [NOTHING] * len(rows), [*map(_next, source)]
        else:
            reads, predicted = [*map(self._read, targets)], targets
        return Batch(
            source=_matrix([each.ids for each in source], self.padding),
            target_in=_matrix([each.ids for each in reads], self.padding),
            target_out=_matrix([each.ids for each in predicted], self.padding),
            sentences=torch.tensor(rows, dtype=torch.long),
            source_real=_matrix([[True] * len(each.ids) for each in source], False),
            source_special=_matrix([each.special for each in source], False),
            target_real=_matrix([[True] * len(each.ids) for each in reads], False),
            input_special=_matrix([each.special for each in reads], False),
            output_special=_matrix([each.special for each in predicted], False),
        )

    def _read(self, target: Encoded) -> Encoded:
        """The target as the decoder reads it: shifted right behind its start."""
        if not target.ids:
            return target
        first = target.ids[-1] if self.start is None else self.start
        return Encoded([first, *target.ids[:-1]], [True, *target.special[:-1]])


def _next(read: Encoded) -> Encoded:
    """The token after each one; after the last there is nothing, marked special."""
    return Encoded([*read.ids[1:], read.ids[-1]], [*read.special[1:], True])


def _matrix(rows: list[list], filling: int | bool) -> Tensor:
    """Rows of unequal length as one matrix, filled on the right."""
    width = max(map(len, rows))
    filled = [[*row, *[filling] * (width - len(row))] for row in rows]
    dtype = torch.bool if filling is False else torch.long
    return torch.tensor(filled, dtype=dtype).reshape(len(rows), width)
