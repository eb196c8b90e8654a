"""A SentencePiece vocabulary through `tokenizers`: its own ids, spans in the text, text again.

`sentencepiece` itself breaks ties otherwise and cuts one sentence in 140 in another way.
"""

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from headbook.extras import extras
from headbook.models.loaded import Span
from headbook.text.subwords import spans_of
from headbook.types import UserError


class Pieces:
    """A unigram vocabulary (Kudo 2018) without special tokens: these are the model's business.

    Made from the bytes of an .spm file; `name` stands in errors. UserError where it is none.
    """

    def __init__(self, content: bytes, name: str):
        with extras():
            from transformers.utils.sentencepiece_model_pb2_new import ModelProto
        try:
            read = ModelProto.FromString(content)
            pieces = [(each.piece, each.score) for each in read.pieces]
            self.unknown = [each.type for each in read.pieces].index(
                ModelProto.SentencePiece.UNKNOWN
            )
            unigram = models.Unigram(pieces, self.unknown, byte_fallback=False)
            charsmap = read.normalizer_spec.precompiled_charsmap
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
