"""Words of positive and negative reviews, and the vectors that they start from (page 56)."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from headbook.corpora.rated import Rated, decided, load_rated
from headbook.looking.load import load
from headbook.text.batches import UNK, EncodedPair

Pairs = Sequence[EncodedPair]
WIDTH, OFTEN = 128, 2  # words rarer than that in training are one unknown word


class Reviews(NamedTuple):
    """Sentences as ids with [1] where positive and [0] where negative, and each id's word."""

    train: Pairs
    dev: Pairs
    test: Pairs
    words: list[str]


@cache
def reviews(corpus: str) -> Reviews:
    """Positive and negative sentences of a rated corpus, words in lower case."""
    splits = {split: decided(found) for split, found in load_rated(corpus).items()}
    counts = Counter(word.lower() for each in splits["train"] for word in each.words)
    words = ["", "", "unknown", *(w for w, count in counts.most_common() if count >= OFTEN)]
    ids = {word: number for number, word in enumerate(words) if number > UNK}

    def encoded(each: Rated) -> EncodedPair:
        return [ids.get(word.lower(), UNK) for word in each.words], [int(each.positive)]

    return Reviews(*([*map(encoded, splits[split])] for split in ("train", "dev", "test")), words)


@cache
def vectors(corpus: str) -> Tensor:
    """MiniLM's vectors of tokens [id, width], mean over a word's, on their principal axes."""
    model, words = load("minilm"), reviews(corpus).words[UNK + 1 :]
    tokens = model.network.model.get_input_embeddings().weight.detach()
    encoded = map(model.text.encoded, words)
    pieces = [np.array(each.ids)[~np.array(each.special)] for each in encoded]
    found = torch.stack([tokens[each].mean(0) for each in pieces])
    found = found - found.mean(0)
    turned = found @ torch.linalg.svd(found, full_matrices=False).Vh[:WIDTH].T
    return torch.cat([torch.zeros(UNK + 1, WIDTH), turned / turned.std()])
