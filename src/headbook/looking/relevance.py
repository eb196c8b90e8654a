"""Relevance of a loaded translation model's heads over some sentences."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.measure import REPLICATES, RatioSums
from headbook.heads.relevance import Relevances, Translator, relevances
from headbook.heads.relevance_rules import RULES, Rules
from headbook.looking.ours import OurModel
from headbook.models.loaded import Loaded
from headbook.released.firefox import FirefoxModel
from headbook.text.batches import Batch
from headbook.types import UserError

Terms = dict[str, tuple[Float[Tensor, "batch ..."], Float[Tensor, "batch ..."]]]


def relevance(
    model: Loaded, batches: Sequence[Batch], rules: Rules = RULES["code-2019"]
) -> Mapping[str, RatioSums]:
    """Means over every prediction of the batches, EOS among them, by name.

    - `normalised/<kind>` [layer, head]: the head's part of its layer, |R_h| / Σ_h |R_h|, sums to 1
      over the heads (Voita et al. 2019, section 4; where relevance has no sign this is R_h / Σ R_h,
      and where it has one Σ R_h may be 0). A prediction whose layer got nothing does not count.
    - `conservation/<kind>` [layer], encoder and decoder: the total in the whole network below that
      layer over what it started with; 1 where every rule above conserves.

    `batches` hold sentences with their translations, and `rules` are by default those of the code
    of Voita et al. 2019. In 64-bit numbers: shares are divided by sums near zero, and rounding to
    32 bits would move those of single heads by several per cent. UserError for a model that
    relevance cannot be propagated through, see `translator`.
    """
    found, through = [], translator(model)
    network, own, device = through.network, through.last.dtype, through.last.device
    training = network.training
    try:
        network.double().eval()
        for batch in batches:
            found.append(terms(relevances(through, batch.to(device), rules)))
    finally:
        network.to(own).train(training)
    sentences = torch.cat([batch.sentences for batch in batches]).to(device)
    sums = {}
    for name in found[0]:
        sides = map(torch.cat, zip(*(each[name] for each in found), strict=True))
        sums[name] = RatioSums.over(*sides, sentences, REPLICATES)
    return sums


def terms(found: Relevances) -> Terms:
    """Contributions of each sentence to the numerator and denominator of every mean."""
    predictions, by_name = found.counted.double().sum(1)[:, None], {}
    for kind, heads in found.heads.items():
        size = heads.abs()
        layer = size.sum(-1, keepdim=True)
        part = torch.where(layer > 0, size / layer, 0.0)
        by_name[f"normalised/{kind}"] = part.sum(1), (layer > 0).double().sum(1)
    for kind, totals in found.conserved.items():
        by_name[f"conservation/{kind}"] = totals.sum(1), predictions
    return by_name


def translator(model: Loaded) -> Translator:
    """The model's layers as relevance goes back through them.

    UserError for models other than Firefox translators and translation models of this package, and
    for layers with unequal numbers of heads.
    """
    network = getattr(model, "network", None)
    if isinstance(model, FirefoxModel):
        return Translator(network, network.states, network.target.tokens.weight)
    if not isinstance(model, OurModel) or not (len(network.encoder) and len(network.decoder)):
        raise UserError(
            f"{model.name}: relevance is propagated through Firefox translators and translation "
            "models trained here; name one of these"
        )
    if len({block.heads for _, _, block in network.attentions()}) > 1:
        raise UserError(
            f"{model.name}: relevance needs the same number of heads in every layer; close heads "
            "by gates instead"
        )

    def decoded(batch: Batch) -> Float[Tensor, "batch token model"]:
        return network.decode(batch.target_in, *network.encode(batch.source))

    return Translator(network, decoded, network.logits.weight)
