"""Relevance of heads over a text: sums over predictions, streamed, with their own bootstrap."""

from collections.abc import Callable, Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.heads.bootstrap import Resamples
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.heads.relevance import ROWS, Relevances, relevances
from headbook.heads.relevance_pass import Pass, forward_pass
from headbook.heads.relevance_rules import Rules
from headbook.text.batches import Batch
from headbook.types import UserError

Terms = dict[str, tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch ..."]]]
Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


class RelevanceSums:
    """Means over all predictions of a text, EOS among them, accumulated batch by batch.

    By name, all but the last two once for each kind of attention:

    - `normalised/<kind>` [layer, head]: the head's part of its layer, |R_h| / Σ_h |R_h|, sums to 1
      over the heads (Voita et al. 2019, section 4; where relevance has no sign this is R_h / Σ R_h,
      and where it has one Σ R_h may be 0). A prediction whose layer got nothing does not count.
    - `raw/<kind>` [layer, head]: the head's share of what its prediction started with, with its
      sign; layers can be compared.
    - `absolute/<kind>` [layer, head]: the same without its sign, so that predictions which a head
      speaks for and against do not cancel.
    - `conservation/<kind>` [layer], encoder and decoder: the total in the whole network below that
      layer over what it started with; 1 where every rule above conserves.
    - `growth/<kind>` [layer]: the same of absolute values; large where relevance cancels.
    - `source` []: the share that reached the encoder.
    """

    def __init__(self, replicates: int = REPLICATES) -> None:
        self.replicates = replicates
        self._sums: dict[str, RatioSums] = {}

    def update(self, found: Relevances, batch: Batch) -> None:
        """Adds the predictions of one batch."""
        resamples = Resamples.of(batch.sentences, self.replicates)
        for name, terms in contributions(found).items():
            numerator, denominator = (resamples.sums(each) for each in terms)
            if name in self._sums:
                numerator = numerator + self._sums[name].numerator
                denominator = denominator + self._sums[name].denominator
            self._sums[name] = RatioSums(numerator, denominator)

    def sums(self) -> Mapping[str, RatioSums]:
        """The accumulated sums, by name."""
        if not self._sums:
            raise UserError("relevance: no batch was measured; update it first")
        return dict(self._sums)


def contributions(found: Relevances) -> Terms:
    """Contributions of each sentence to the numerator and denominator of every mean."""
    counted = found.counted.double()
    predictions = counted.sum(1)
    terms: Terms = {"source": (found.source.double().sum(1), predictions)}
    for kind, heads in found.heads.items():
        share = heads.double()
        size = share.abs()
        layer = size.sum(-1, keepdim=True)
        reached = (layer > 0).double()
        part = torch.where(layer > 0, size / layer, 0.0)
        terms[f"normalised/{kind}"] = (part.sum(1), reached.sum(1))
        terms[f"raw/{kind}"] = (share.sum(1), predictions[:, None, None])
        terms[f"absolute/{kind}"] = (size.sum(1), predictions[:, None, None])
    for name, totals in (("conservation", found.conserved), ("growth", found.size)):
        for kind, each in totals.items():
            terms[f"{name}/{kind}"] = (each.double().sum(1), predictions[:, None])
    return terms


def collect_relevance(
    model: nn.Module,
    batches: Iterable[Batch],
    rules: Rules,
    sums: RelevanceSums,
    progress: Progress = iter,
    rows: int = ROWS,
    forward: Callable[[nn.Module, Batch], Pass] = forward_pass,
) -> None:
    """Updates the sums with every prediction of the batches.

    `forward` is the model's forward pass, as in `relevances`. The model runs in evaluation mode and
    is left in the mode it was in; batches are moved to its device. UserError for a model without
    encoder or decoder or with unequal numbers of heads.
    """
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    try:
        for batch in progress(batches):
            moved = batch.to(device)
            sums.update(relevances(model, moved, rules, rows, forward), moved)
    finally:
        model.train(training)
