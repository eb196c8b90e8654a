"""Texts of one length with hidden words, and the loss of these (page 43)."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.corpora.masked import masked_copies
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.text.batches import EOS, Batch, EncodedPair
from headbook.text.subwords import Subwords
from headbook.types import UserError


def joined_texts(
    subwords: Subwords, sentences: Sequence[str], length: int, count: int, seed: int
) -> list[EncodedPair]:
    """Sentences in random order, joined, cut into texts, tokens hidden; UserError for too few."""
    generator = torch.Generator().manual_seed(derived(seed, "order of sentences"))
    whole, left = [], []
    for at in torch.randperm(len(sentences), generator=generator).tolist():
        left += [each for each in subwords.encode([sentences[at]])[0] if each != EOS]
        while len(left) >= length - 1 and len(whole) < count:
            whole.append([*left[: length - 1], EOS])
            left = left[length - 1 :]
        if len(whole) == count:
            return masked_copies(whole, len(subwords), 1, derived(seed, "hidden tokens"))
    raise UserError(f"these sentences make {len(whole)} texts of {length} tokens, not {count}")


def hidden_nats(model: Transformer, batch: Batch) -> Tensor:
    """Cross-entropy of the hidden tokens, [token]; logits of no other token are computed."""
    hidden = batch.target_mask
    states, _ = model.encode(batch.source)
    return cross_entropy(model.logits(states[hidden]), batch.target_out[hidden], reduction="none")
