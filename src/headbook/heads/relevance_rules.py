"""Layer-wise relevance propagation: how one layer's relevance is shared among its inputs.

Three methods go by this one name (Voita et al. 2019, appendix A, and its code); each is in `RULES`.
A relevance tensor has an axis of predictions after the batch: `[batch, prediction, token, dim]`
says how much every neuron contributed to each prediction. All share these: relevance passes an
activation (ReLU, softmax) and a layer normalisation unchanged, and the gate of a head too.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear, pad

Activations = Float[Tensor, "batch token inputs"]
Weight = Float[Tensor, "outputs inputs"]
Bias = Float[Tensor, " outputs"]
Incoming = Float[Tensor, "batch prediction token outputs"]
Outgoing = Float[Tensor, "batch prediction token inputs"]
HeadRelevance = Float[Tensor, "batch head prediction token head_dim"]
Shares = list[Float[Tensor, "batch head prediction _token head_dim"] | None]
Rows = Float[Tensor, "batch prediction dim"]

EPSILON = 1e-2
"""Stabiliser of signed ratios: below it a sum that cancels no longer blows its shares up. States
after a layer norm are of size 1; what the stabiliser takes is seen in the conservation."""
EPSILON_2019 = 1e-7
"""The constant of the code of 2019: the least weight, and what is added to every input."""


class Core(NamedTuple):
    """What one attention block computes between its projections, per head."""

    queries: Float[Tensor, "batch head query dim"]
    keys: Float[Tensor, "batch head key dim"]
    values: Float[Tensor, "batch head key dim"]
    scores: Float[Tensor, "batch head query key"]  # scaled, -inf where masked
    weights: Float[Tensor, "batch head query key"]
    context: Float[Tensor, "batch head query dim"]  # before the gate


@dataclass(frozen=True)
class SignedRules:
    """The signed weight ratio of Voita et al. 2019, appendix A (Ding et al. 2017), stabilised.

    A sum v = Σ_u W_uv u gives u the share W_uv u / (v + ε sign v). The bias is no u: it is left out
    of v and gets nothing, so relevance is conserved but for ε. A residual a + b is such a sum.

    Attention has sums of products, context = Σ_j a_ij v_j and score = Σ_d q_d k_d; a product gets
    its share of the sum, and its two factors half of that each. So of a head's relevance 1/2 goes
    to its values, 1/4 to its queries and 1/4 to its keys. (The paper's rule for a product shares by
    u / (u + u'), which adds an attention weight to a value and has a pole where they cancel.)
    """

    epsilon: float = EPSILON

    def linear(
        self, inputs: Activations, weight: Weight, bias: Bias | None, relevance: Incoming
    ) -> Outgoing:
        """Through `inputs @ weight.T + bias`."""
        return _by_sum(inputs, weight, stabilised(inputs @ weight.T, self.epsilon), relevance)

    def logit(self, inputs: Rows, weight: Rows) -> Rows:
        """Relevance 1 through one logit a prediction, `weight` its row of the last layer."""
        terms = inputs * weight
        return terms / stabilised(terms.sum(-1, keepdim=True), self.epsilon)

    def residual(
        self, skip: Activations, added: Activations, relevance: Outgoing
    ) -> tuple[Outgoing, Outgoing]:
        """Through `skip + added`, to each."""
        total = stabilised(skip + added, self.epsilon)
        return relevance * (skip / total)[:, None], relevance * (added / total)[:, None]

    def attention(self, core: Core, relevance: HeadRelevance) -> Shares:
        """Through the weighted sum, softmax and scores to queries, keys and values.

        None where a rule gives nothing.
        """
        ratio = relevance * stabilised(core.context, self.epsilon).reciprocal()[:, :, None]
        values = _to_values(core.weights, core.values, ratio)
        # Masked scores are -inf and have relevance 0, which the ratio keeps.
        of_scores = _to_weights(core.values, ratio)
        of_scores *= (0.5 * core.weights / stabilised(core.scores, self.epsilon))[:, :, None]
        queries, keys = _to_queries_and_keys(of_scores, core.queries, core.keys)
        return [queries.mul_(0.5), keys.mul_(0.5), values.mul_(0.5)]

    def recurrence(
        self, forget: Activations, candidates: Activations, cells: Activations, relevance: Incoming
    ) -> Outgoing:
        """Through c_t = f_t c_{t-1} + (1 - f_t) u_t, from the cells c to the candidates u.

        The forget gates f are constants: a cell is a sum of what it keeps and what it takes in.
        """
        kept, taken = _terms(forget, candidates, cells)
        total = stabilised(cells, self.epsilon)
        return _down_the_cells(kept / total, taken / total, relevance)


@dataclass(frozen=True)
class ConstantAttentionRules(SignedRules):
    """The ε-rule with attention weights held constant: relevance goes through values only.

    The bias is part of the sum v, as in the ε-rule of Bach et al. 2015, and absorbs its share: what
    is lost shows in the conservation. As ε goes to 0 the relevance of any neuron is its value times
    the logit's gradient, where attention weights, ReLU gates and what layer normalisation
    multiplies a neuron by are constants.
    """

    def linear(
        self, inputs: Activations, weight: Weight, bias: Bias | None, relevance: Incoming
    ) -> Outgoing:
        total = stabilised(linear(inputs, weight, bias), self.epsilon)
        return _by_sum(inputs, weight, total, relevance)

    def attention(self, core: Core, relevance: HeadRelevance) -> Shares:
        ratio = relevance * stabilised(core.context, self.epsilon).reciprocal()[:, :, None]
        return [None, None, _to_values(core.weights, core.values, ratio)]


@dataclass(frozen=True)
class PositiveRules:
    """The code of 2019: z+ with ε = 1e-7, then absolute value, then rescaling to what came in.

    Weights are max(W, ε), biases dropped, inputs shifted by ε; an input's relevance is the input
    times the gradient of Σ z (R/z) with R/z constant. Attention shares jointly to queries, keys and
    values through the true softmax. The code rescaled the whole tensor, which mixes the sentences
    of a batch; here every sentence and prediction is rescaled by itself. That code had no recurrent
    layer: one is shared here by absolute terms, of which nothing is lost.
    """

    epsilon: float = EPSILON_2019

    def linear(
        self, inputs: Activations, weight: Weight, bias: Bias | None, relevance: Incoming
    ) -> Outgoing:
        weight, inputs = weight.clamp(min=self.epsilon), inputs + self.epsilon
        total = self._apart_from_zero(inputs @ weight.T)
        (shared,) = rescaled(relevance, _by_sum(inputs, weight, total, relevance))
        return shared

    def logit(self, inputs: Rows, weight: Rows) -> Rows:
        terms = ((inputs + self.epsilon) * weight.clamp(min=self.epsilon)).abs()
        return terms / terms.sum(-1, keepdim=True)

    def residual(
        self, skip: Activations, added: Activations, relevance: Outgoing
    ) -> tuple[Outgoing, Outgoing]:
        skip, added = skip + self.epsilon, added + self.epsilon
        total = self._apart_from_zero(skip + added)
        parts = (relevance * (each / total)[:, None] for each in (skip, added))
        return rescaled(relevance, *parts)

    def attention(self, core: Core, relevance: HeadRelevance) -> Shares:
        queries, keys, values = (each + self.epsilon for each in core[:3])
        # Rows of weights sum to 1: shifted values shift the context, and shifted keys nothing.
        total = self._apart_from_zero(core.context + self.epsilon)
        ratio = relevance * total.reciprocal()[:, :, None]
        of_values = _to_values(core.weights, values, ratio)
        of_weights = _to_weights(values, ratio)
        weights = core.weights[:, :, None]
        of_weights -= (weights * of_weights).sum(-1, keepdim=True)
        of_queries, of_keys = _to_queries_and_keys(of_weights.mul_(weights), queries, keys)
        # [batch head prediction token dim]: rescaled over the heads as well, as in the code.
        parts = (each.transpose(1, 2) for each in (of_queries, of_keys, of_values))
        return [each.transpose(1, 2) for each in rescaled(relevance.transpose(1, 2), *parts)]

    def recurrence(
        self, forget: Activations, candidates: Activations, cells: Activations, relevance: Incoming
    ) -> Outgoing:
        kept, taken = (each.abs() for each in _terms(forget, candidates, cells))
        total = self._apart_from_zero(kept + taken)
        return _down_the_cells(kept / total, taken / total, relevance)

    def _apart_from_zero(self, sums: Tensor) -> Tensor:
        """The sums, with epsilon in place of an exact 0."""
        return sums.masked_fill(sums == 0, self.epsilon)


Rules = SignedRules | PositiveRules
RULES: dict[str, Rules] = {
    "signed": SignedRules(),
    "code-2019": PositiveRules(),
    "constant-attention": ConstantAttentionRules(),
}
"""By name, with their declared constants."""


def stabilised(sums: Float[Tensor, "*shape"], epsilon: float) -> Float[Tensor, "*shape"]:
    """The sums, moved away from 0 by epsilon."""
    return sums + sums.new_tensor(epsilon).copysign(sums)


def rescaled(
    incoming: Float[Tensor, "batch prediction ..."], *parts: Float[Tensor, "batch prediction ..."]
) -> tuple[Float[Tensor, "batch prediction ..."], ...]:
    """The parts' absolute values times one factor, so that all of them sum to what came in.

    One factor for each sentence and prediction; nothing comes of nothing. The parts are changed.
    """
    sizes = [part.abs_().flatten(2).sum(-1) for part in parts]
    total = torch.stack(sizes).sum(0)
    wanted = incoming.flatten(2).sum(-1)
    factor = torch.where(total > 0, wanted / total, 0.0)
    return tuple(part.mul_(factor.view(*factor.shape, *[1] * (part.ndim - 2))) for part in parts)


def _terms(
    forget: Activations, candidates: Activations, cells: Activations
) -> tuple[Activations, Activations]:
    """The two terms of every cell: f_t c_{t-1} and (1 - f_t) u_t."""
    return forget * pad(cells[:, :-1], (0, 0, 1, 0)), (1 - forget) * candidates


def _down_the_cells(kept: Activations, taken: Activations, relevance: Incoming) -> Outgoing:
    """Relevance of the candidates, from the shares that a cell passes to the cell before it
    (`kept`) and to its own candidate (`taken`)."""
    found, carried = torch.empty_like(relevance), torch.zeros_like(relevance[:, :, 0])
    for time in reversed(range(kept.shape[1])):
        arrived = relevance[:, :, time] + carried
        found[:, :, time] = arrived * taken[:, None, time]
        carried = arrived * kept[:, None, time]
    return found


def _by_sum(inputs: Activations, weight: Weight, sums: Tensor, relevance: Incoming) -> Outgoing:
    """W_uv u r_v / v for every input u, summed over the outputs v; `sums` holds the v."""
    # Reciprocals are taken once a token, not once a token and prediction.
    ratio = relevance * sums.reciprocal()[:, None]
    return (ratio @ weight).mul_(inputs[:, None])


def _to_values(weights: Tensor, values: Tensor, ratio: HeadRelevance) -> Tensor:
    """a_ij v_j times the ratio at i, summed over the queries i."""
    return torch.einsum("bhij,bhpid->bhpjd", weights, ratio).mul_(values[:, :, None])


def _to_weights(values: Tensor, ratio: HeadRelevance) -> Tensor:
    """v_j times the ratio at i, summed over dimensions: [batch head prediction query key]."""
    return torch.einsum("bhpid,bhjd->bhpij", ratio, values)


def _to_queries_and_keys(of_scores: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of scores, [batch head prediction query key], times the products q_id k_jd in them.

    Each product is summed once over the keys, for the queries, and once over the queries.
    """
    of_scores = of_scores * queries.shape[-1] ** -0.5
    to_queries = torch.einsum("bhpij,bhjd->bhpid", of_scores, keys)
    to_keys = torch.einsum("bhpij,bhid->bhpjd", of_scores, queries)
    return to_queries.mul_(queries[:, :, None]), to_keys.mul_(keys[:, :, None])
