"""Texts of one length with hidden words, and the loss of these (page 43)."""

from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.masked import masked_copies
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.text.batches import EOS, Batch, EncodedPair
from headbook.text.subwords import Subwords


def joined_texts(
    subwords: Subwords, sentences: Sequence[str], length: int, count: int, seed: int
) -> list[EncodedPair]:
    """Sentences in random order, joined, cut into texts, tokens hidden."""
    generator = torch.Generator().manual_seed(derived(seed, "order of sentences"))
    order = torch.randperm(len(sentences), generator=generator).tolist()
    rows = (subwords.encode([sentences[at]])[0] for at in order)
    tokens = (each for row in rows for each in row if each != EOS)
    whole = [[*islice(tokens, length - 1), EOS] for _ in range(count)]
    return masked_copies(whole, len(subwords), 1, derived(seed, "hidden tokens"))


def hidden_nats(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the hidden tokens, [token]; logits of no other token are computed."""
    hidden = batch.target_mask
    states, _ = model.encode(batch.source)
    return cross_entropy(model.logits(states[hidden]), batch.target_out[hidden], reduction="none")
