"""Sentences as a foreign tokenizer cuts them: ids, special tokens, spans and batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
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
        named = {"text_target": sentence} if target else {"text": sentence}
        options = {"return_special_tokens_mask": True} if self.tokenizer.is_fast else {}
        given = self.tokenizer(**named, **options, verbose=False)
        ids = list(given["input_ids"])
        if self.limit is not None and len(ids) > self.limit:
            raise UserError(
                f"{sentence[:60]!r} has {len(ids)} tokens, but the model takes {self.limit} at "
                "most; split the sentence or leave it out"
            )
        if not ids:
            raise UserError(f"{sentence!r} has no tokens for this model; leave empty lines out")
        if self.tokenizer.is_fast:
            return Encoded(ids, [bool(each) for each in given["special_tokens_mask"]])
        bare = self.tokenizer(**named, add_special_tokens=False, verbose=False)["input_ids"]
        first = _found(list(bare), ids)
        return Encoded(ids, [not first <= at < first + len(bare) for at in range(len(ids))])

    def spans(self, sentence: str, target: bool = False) -> list[Span | None]:
        """Each token's characters, without spaces at their ends; None for a special token.

        UserError where neither the tokenizer's offsets nor the text of its pieces cover the
        sentence.
        """
        special = self.encoded(sentence, target).special
        spans: list[Span] = []
        if self.tokenizer.is_fast:
            named = {"text_target" if target else "text": sentence}
            given = self.tokenizer(**named, return_offsets_mapping=True, verbose=False)
            offsets = zip(given["offset_mapping"], special, strict=True)
            spans = [trimmed(sentence, (a, b)) for (a, b), added in offsets if not added]
        # Some releases of fast tokenizers gave wrong offsets: none are taken on trust.
        if not self.tokenizer.is_fast or not cover(sentence, spans):
            spans = matched(sentence, self._surfaces(sentence, special, target))
            if not cover(sentence, spans):
                raise UserError(f"the tokenizer's pieces leave out a part of {sentence[:60]!r}")
        each = iter(spans)
        return [None if added else next(each) for added in special]

    def pieces(self, sentence: str, target: bool = False) -> list[str]:
        """The tokens as text, special ones by their name, a space before a piece as ▁."""
        encoded = self.encoded(sentence, target)
        names = self.tokenizer.convert_ids_to_tokens(encoded.ids)
        surfaces = iter(self._surfaces(sentence, encoded.special, target))
        return [
            name if added else next(surfaces)
            for name, added in zip(names, encoded.special, strict=True)
        ]

    def _surfaces(self, sentence: str, special: list[bool], target: bool) -> list[str]:
        """The text of every piece that is not special, unknown ones as they were written."""
        # A tokenizer in Python cuts the text itself, so its unknown pieces still have their text;
        # it cuts every text as a source.
        names = [] if target else self.tokenizer.tokenize(sentence)
        if self.tokenizer.is_fast or len(names) != special.count(False):
            ids = self.encoded(sentence, target).ids
            names = self.tokenizer.convert_ids_to_tokens(
                [each for each, added in zip(ids, special, strict=True) if not added]
            )
        if not self._byte_level:
            return names
        texts = [self.tokenizer.convert_tokens_to_string([name]) for name in names]
        return [MARK + text[1:] if text.startswith(" ") else text for text in texts]

    @property
    def _byte_level(self) -> bool:
        """Whether a piece's name spells bytes, as GPT-2's do."""
        if not self.tokenizer.is_fast:
            return False
        return type(self.tokenizer.backend_tokenizer.decoder).__name__ == "ByteLevel"

    def batches(
        self, sentences: Sequence[str], targets: Sequence[str] | None, tokens: int
    ) -> list[Batch]:
        """See `Loaded.batches`. A decoder's sentences are its target, an encoder's the source."""
        sources = [self.encoded(sentence) for sentence in sentences]
        nothing = [Encoded([], [])] * len(sources)
        if self.stacks is not Stacks.BOTH:
            if targets is not None:
                raise UserError("this model has one stack and takes no targets; leave them out")
            wanted = nothing
        else:
            given = [""] * len(sources) if targets is None else targets
            if len(given) != len(sources):
                raise UserError(f"{len(sources)} sentences have {len(given)} targets")
            wanted = [self.encoded(target, target=True) for target in given]
        lengths = [(one.ids, two.ids) for one, two in zip(sources, wanted, strict=True)]
        return [
            self._batch([sources[at] for at in rows], [wanted[at] for at in rows], rows)
            for rows in bucket(lengths, tokens, range(len(lengths)))
        ]

    def _batch(self, sources: list[Encoded], targets: list[Encoded], rows: list[int]) -> Batch:
        if self.stacks is Stacks.DECODER:
            shifted = [_shifted(each) for each in sources]
            reads, source = sources, [Encoded([], [])] * len(rows)
        else:
            shifted, source = targets, sources
            reads = [self._read(each) for each in targets]
        return Batch(
            source=self._ids(source),
            target_in=self._ids(reads),
            target_out=self._ids(shifted),
            sentences=torch.tensor(rows, dtype=torch.long),
            source_real=_real(source),
            source_special=_special(source),
            target_real=_real(reads),
            input_special=_special(reads),
            output_special=_special(shifted),
        )

    def _read(self, target: Encoded) -> Encoded:
        """The target as the decoder reads it: shifted right behind its start."""
        if not target.ids:
            return target
        first = target.ids[-1] if self.start is None else self.start
        return Encoded([first, *target.ids[:-1]], [True, *target.special[:-1]])

    def _ids(self, rows: list[Encoded]) -> Int[Tensor, "batch token"]:
        width = max(len(row.ids) for row in rows)
        filled = [[*row.ids, *[self.padding] * (width - len(row.ids))] for row in rows]
        return torch.tensor(filled, dtype=torch.long).reshape(len(rows), width)


def _shifted(read: Encoded) -> Encoded:
    """The token after each one; after the last there is nothing, marked special."""
    return Encoded([*read.ids[1:], read.ids[-1]], [*read.special[1:], True])


def _real(rows: list[Encoded]) -> Bool[Tensor, "batch token"]:
    width = max(len(row.ids) for row in rows)
    filled = [[at < len(row.ids) for at in range(width)] for row in rows]
    return torch.tensor(filled, dtype=torch.bool).reshape(len(rows), width)


def _special(rows: list[Encoded]) -> Bool[Tensor, "batch token"]:
    width = max(len(row.ids) for row in rows)
    filled = [[*row.special, *[False] * (width - len(row.ids))] for row in rows]
    return torch.tensor(filled, dtype=torch.bool).reshape(len(rows), width)


def _found(few: list[int], many: list[int]) -> int:
    """Where the tokens of the text begin among those with special ones."""
    for at in range(len(many) - len(few) + 1):
        if many[at : at + len(few)] == few:
            return at
    raise UserError("the tokenizer changes a sentence's tokens when it adds special ones")
