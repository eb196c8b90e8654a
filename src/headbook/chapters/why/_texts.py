"""Texts of an exact number of tokens."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import torch

from headbook.corpora.batches import Batch
from headbook.looking.text import text
from headbook.models.loaded import Loaded


def of_length(model: Loaded, length: int, texts: int) -> Iterator[Batch]:
    """Words of joined sentences until they have so many tokens, of which the last stays special."""
    words_left = iter(" ".join(text("ewt-sample").sentences).split())
    for _ in range(texts):
        joined = list(islice(words_left, length // 2))  # most words are one piece or two
        while len(model.pieces(" ".join(joined))) < length:
            joined.append(next(words_left))
        (batch,) = model.batches([" ".join(joined)])
        yield _cut(batch, length)


def _cut(batch: Batch, length: int) -> Batch:
    keep = torch.tensor([*range(length - 1), batch.source.shape[1] - 1])
    marks = {name: getattr(batch, name) for name in ("source_real", "source_special")}
    kept = {name: None if each is None else each[:, keep] for name, each in marks.items()}
    return replace(batch, source=batch.source[:, keep], **kept)
