"""A SentencePiece vocabulary through `tokenizers`: its own ids, spans in the text, text again.

`sentencepiece` itself breaks ties otherwise and cuts one sentence in 140 in another way.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headbook.models.loaded import Span
from headbook.text.subwords import spans_of
from headbook.types import UserError

PIECE, NORMALISER, CHARSMAP = 1, 3, 2  # fields of a SentencePiece model, of its normaliser
TEXT, SCORE, KIND = 1, 2, 3  # fields of a piece
UNKNOWN = 2  # the kind of the piece for what has none
VARINT, BYTES = 0, 2  # how protocol buffers lay out a field;
WIDTHS = {1: 8, 5: 4}  # the others have so many bytes


class Pieces:
    """A unigram vocabulary (Kudo 2018) without special tokens: these are the model's business.

    Made from the bytes of an .spm file; `name` stands in errors. UserError where it is none.
    """

    def __init__(self, content: bytes, name: str):
        try:
            pieces, self.unknown, charsmap = _read(content)
            unigram = models.Unigram(pieces, self.unknown, byte_fallback=False)
            mapped = [normalizers.Precompiled(charsmap)] if charsmap else []
        except Exception as error:  # tokenizers raises bare Exception where its tables are damaged
            raise UserError(
                f"{name} is not a whole SentencePiece vocabulary ({error}): copy or fetch it again"
            ) from None
        self._tokenizer = Tokenizer(unigram)
        tidy = [normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
        self._tokenizer.normalizer = normalizers.Sequence([*mapped, *tidy])
        self._tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        self._tokenizer.decoder = decoders.Metaspace()

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

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


@lru_cache(2)
def _read(content: bytes) -> tuple[list[tuple[str, float]], int, bytes]:
    """Pieces with their scores, the place of the unknown one, the normaliser's table."""
    pieces, unknown, charsmap = [], [], b""
    for field, value in _fields(content):
        if field == PIECE:
            piece = dict(_fields(value))
            if piece.get(KIND) == UNKNOWN:
                unknown.append(len(pieces))
            (score,) = struct.unpack("<f", piece.get(SCORE, bytes(4)))
            pieces.append((piece[TEXT].decode("utf-8"), score))
        elif field == NORMALISER:
            charsmap = dict(_fields(value)).get(CHARSMAP, b"")
    if not unknown:
        raise ValueError("no unknown piece")
    return pieces, unknown[0], charsmap


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protocol buffers: its number and value, in order."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        layout = key & 7
        if layout == VARINT:
            value, at = _varint(message, at)
        else:
            length, at = _varint(message, at) if layout == BYTES else (WIDTHS[layout], at)
            value, at = message[at : at + length], at + length
        yield key >> 3, value
    if at > len(message):
        raise ValueError("it ends within a field")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
