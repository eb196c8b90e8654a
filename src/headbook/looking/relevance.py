"""Relevance of a loaded translation model's heads over some sentences."""

from collections.abc import Callable, Mapping, Sequence

from torch import nn

from headbook.heads.measure import RatioSums
from headbook.heads.relevance import ROWS
from headbook.heads.relevance_pass import Pass, forward_pass
from headbook.heads.relevance_rules import Rules, Variant, rules_of
from headbook.heads.relevance_sums import RelevanceSums, collect_relevance
from headbook.looking.ours import OurModel
from headbook.models.loaded import Loaded
from headbook.released.firefox import FirefoxModel
from headbook.released.student_relevance import student_pass
from headbook.text.batches import Batch
from headbook.types import UserError


def relevance(
    model: Loaded,
    batches: Sequence[Batch],
    rules: Variant | Rules = Variant.CODE_2019,
    rows: int = ROWS,
) -> Mapping[str, RatioSums]:
    """Relevance of all heads over every prediction of the batches, by the names of `RelevanceSums`.

    `batches` hold sentences with their translations, and `rules` are by default those of the code
    of Voita et al. 2019. In 64-bit numbers: shares are divided by sums near zero, and rounding to
    32 bits would move those of single heads by several per cent. `rows` is that of `relevances`;
    where it is 1, the rules see one prediction of a sentence at a time. UserError for a model that
    relevance cannot be propagated through, see `pass_of`.
    """
    forward, network = pass_of(model), model.network
    own, sums = next(network.parameters()).dtype, RelevanceSums()
    rules = rules_of(rules) if isinstance(rules, Variant) else rules
    try:
        collect_relevance(network.double(), batches, rules, sums, rows=rows, forward=forward)
    finally:
        network.to(own)
    return sums.sums()


def pass_of(model: Loaded) -> Callable[[nn.Module, Batch], Pass]:
    """The forward pass that relevance goes back through.

    UserError for models other than Firefox translators and translation models of this package.
    """
    if isinstance(model, FirefoxModel):
        return student_pass
    if isinstance(model, OurModel):
        return forward_pass
    raise UserError(
        f"{model.name}: relevance is propagated through Firefox translators and translation models "
        "trained here; name one of these"
    )
