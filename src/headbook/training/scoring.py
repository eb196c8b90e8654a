"""Scores of a model: cross-entropy, and sacrebleu of what it translates."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from sacrebleu.metrics import BLEU
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.models.transformer import Transformer
from headbook.text.batches import PAD, EncodedPair, in_order


@dataclass(frozen=True)
class CorpusScore:
    """A score of a corpus in percent, its 95 % bootstrap half-width, and sacrebleu's signature."""

    score: float
    half_width: float
    signature: str


def bleu(
    translations: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> CorpusScore:
    """Corpus BLEU with sacrebleu's 13a tokeniser; its interval over 1,000 resampled test sets.

    Of raw cased text, or lower-cased as in the paper's repository.
    """
    metric = BLEU(lowercase=lowercase)
    result = metric.corpus_score(list(translations), [list(references)], n_bootstrap=1000)
    return CorpusScore(result.score, float(result._ci), str(metric.get_signature()))


@torch.inference_mode()
def losses(
    model: Transformer, pairs: Sequence[EncodedPair], tokens: int
) -> tuple[Float[Tensor, " sentence"], Int[Tensor, " sentence"]]:
    """Cross-entropy of each sentence in nats, summed over its target tokens, and their number.

    In the order of the pairs, padding left out, in batches of at most so many tokens.
    """
    nats = torch.zeros(len(pairs), dtype=torch.float64)
    counted = torch.zeros(len(pairs), dtype=torch.long)
    device = next(model.parameters()).device
    for batch in in_order(pairs, tokens):
        batch = batch.to(device)
        logits, targets = model(batch).flatten(0, 1), batch.target_out
        each = cross_entropy(logits, targets.flatten(), ignore_index=PAD, reduction="none")
        rows = batch.sentences.cpu()
        nats[rows] = each.view_as(targets).double().sum(1).cpu()
        counted[rows] = batch.target_mask.sum(1).cpu()
    return nats, counted


def nats(model: Transformer, pairs: Sequence[EncodedPair], tokens: int) -> float:
    """Cross-entropy a target token."""
    sums, counted = losses(model, pairs, tokens)
    return float(sums.sum() / counted.sum())
