"""A SentencePiece vocabulary through `tokenizers`: its own ids, spans in the text, text again."""

import json
import struct
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headbook.models.loaded import Span
from headbook.text.subwords import spans_of
from headbook.types import UserError

PIECE, NORMALISER, CHARSMAP = 1, 3, 2  # fields of a SentencePiece model, of its normaliser
TEXT, SCORE, KIND = 1, 2, 3  # fields of a piece
UNKNOWN = 2  # the kind of the piece for what has none
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how protocol buffers lay out a field


class Pieces:
    """A unigram vocabulary (Kudo 2018) without special tokens: these are the model's business."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer

    @classmethod
    def from_json(cls, path: Path) -> "Pieces":
        """Reads a saved tokenizer; UserError where the file is none."""
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # tokenizers raises bare Exception
            raise UserError(f"{path} is not a saved tokenizer ({error}): copy it again") from None

    @classmethod
    def from_sentencepiece(cls, content: bytes, name: str) -> "Pieces":
        """From the bytes of an .spm file; `name` stands in errors. UserError where it is none."""
        try:
            return cls(_tokenizer(content))
        except Exception as error:  # tokenizers raises bare Exception where its tables are damaged
            raise UserError(
                f"{name} is not a whole SentencePiece vocabulary ({error}): copy or fetch it again"
            ) from None

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    @cached_property
    def unknown(self) -> int:
        """The id of the piece for text that no other piece spells."""
        return json.loads(self._tokenizer.to_str())["model"]["unk_id"]

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of each sentence, nothing added."""
        return [row.ids for row in self._tokenizer.encode_batch(list(sentences))]

    def spans(self, sentence: str) -> list[Span]:
        """Characters of each piece, without the space before it.

        A word's ▁ that is a piece of its own has an empty span where the word starts.
        """
        return spans_of(self._tokenizer, sentence)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as they stand in the vocabulary, with ▁ at the start of a word."""
        return [self._tokenizer.id_to_token(identity) for identity in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text of a sequence of ids."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


def _tokenizer(content: bytes) -> Tokenizer:
    pieces: list[tuple[str, float]] = []
    unknown, charsmap = None, b""
    for field, value in _fields(content):
        if field == PIECE:
            piece = dict(_fields(value))
            if piece.get(KIND) == UNKNOWN:
                unknown = len(pieces)
            (score,) = struct.unpack("<f", piece.get(SCORE, bytes(4)))
            pieces.append((piece[TEXT].decode("utf-8"), score))
        elif field == NORMALISER:
            charsmap = dict(_fields(value)).get(CHARSMAP, b"")
    if unknown is None:
        raise ValueError("no unknown piece")
    tokenizer = Tokenizer(models.Unigram(pieces, unknown, byte_fallback=False))
    tidy = [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    mapped = [normalizers.Precompiled(charsmap)] if charsmap else []
    tokenizer.normalizer = normalizers.Sequence([*mapped, *tidy])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers: its number and value, in order."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        field, layout = key >> 3, key & 7
        if layout == VARINT:
            value, at = _varint(message, at)
            yield field, value
            continue
        if layout == BYTES:
            length, at = _varint(message, at)
        elif layout in (FIXED32, FIXED64):
            length = 4 if layout == FIXED32 else 8
        else:
            raise ValueError(f"layout {layout} at byte {at}")
        if at + length > len(message):
            raise ValueError(f"it ends within a field, at byte {at}")
        yield field, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
