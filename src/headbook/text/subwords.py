"""Byte-pair encoding of one side of a corpus (Sennrich et al. 2016), through `tokenizers`."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Int
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from headbook.text.batches import EOS, UNK
from headbook.types import UserError

SPECIAL = ["<pad>", "</s>", "<unk>"]
SPACE = "▁"
# A piece never crosses from letters and digits into punctuation, so that a parser's words and the
# pieces disagree as little as possible; a space belongs to what follows it.
PIECES = Regex(rf"{SPACE}?[\p{{L}}\p{{N}}\p{{M}}]+|{SPACE}?[^{SPACE}\p{{L}}\p{{N}}\p{{M}}]|{SPACE}")


class Subwords:
    """A trained BPE vocabulary of one language."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        # A sentence that holds "</s>" as text must not end there.
        self._tokenizer.encode_special_tokens = True

    @classmethod
    def train(cls, sentences: Iterable[str], vocabulary: int) -> "Subwords":
        """Learns merges until `vocabulary` pieces are reached, the three reserved ids included."""
        tokenizer = Tokenizer(models.BPE(unk_token=SPECIAL[UNK]))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Strip(),
                normalizers.Prepend(SPACE),
                normalizers.Replace(Regex(r"\s+"), SPACE),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Split(PIECES, "isolated")
        tokenizer.decoder = decoders.Metaspace(replacement=SPACE)
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=SPECIAL, limit_alphabet=500, show_progress=False
        )
        tokenizer.train_from_iterator(sentences, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Subwords":
        """Reads a saved vocabulary; UserError where the file is missing or is none."""
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as error:  # tokenizers raises bare Exception
            raise UserError(f"{path} is not a saved tokenizer ({error}); train again") from None

    def save(self, path: Path) -> None:
        """Writes aside and renames: an interrupted write must not pass for a vocabulary."""
        aside = path.with_suffix(".aside")
        self._tokenizer.save(str(aside))
        aside.replace(path)

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Ids of each sentence, ending in EOS."""
        return [[*row.ids, EOS] for row in self._tokenizer.encode_batch(list(sentences))]

    def spans(self, sentence: str) -> list[tuple[int, int]]:
        """Character span of each piece in the sentence, without the space before it and EOS.

        A word's ▁ that is a piece of its own has an empty span where the word starts.
        """
        return spans_of(self._tokenizer, sentence)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The pieces as text, with ▁ at the start of a word."""
        return [self._tokenizer.id_to_token(identity) for identity in ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Plain text of a sequence of ids, EOS and padding left out."""
        return "".join(self.pieces([i for i in ids if i > EOS])).replace(SPACE, " ").strip()


def spans_of(tokenizer: Tokenizer, sentence: str) -> list[tuple[int, int]]:
    """Character span of each piece that a tokenizer cuts, without the space before it."""
    offsets = tokenizer.encode(sentence).offsets
    starts = [start + _spaces(sentence[start:]) for start, _ in offsets]
    # Up to the next piece: normalising drops or composes characters, which no offset covers.
    covered = pairwise([*starts, len(sentence)])
    return [(start, start + len(sentence[start:end].rstrip())) for start, end in covered]


def _spaces(text: str) -> int:
    return len(text) - len(text.lstrip())


def frequency_ranks(
    encoded: Iterable[Sequence[int]], vocabulary: int
) -> Int[Tensor, " vocabulary"]:
    """Rank of every id by its count in the encoded text: 0 is the most frequent; ties by id."""
    flat = torch.tensor([identity for row in encoded for identity in row], dtype=torch.long)
    counts = torch.bincount(flat, minlength=vocabulary)
    ranks = torch.empty(vocabulary, dtype=torch.long)
    ranks[counts.argsort(descending=True, stable=True)] = torch.arange(vocabulary)
    return ranks
