"""Layer-wise relevance propagation: how one layer's relevance is shared among its inputs.

Three methods go by this one name (Voita et al. 2019, appendix A, and its code); each is a `Rules`.
A relevance tensor has an axis of predictions after the batch: `[batch, prediction, token, dim]`
says how much every neuron contributed to each prediction. All share these: relevance passes an
activation (ReLU, softmax) and a layer normalisation unchanged, and the gate of a head too.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

Activations = Float[Tensor, "batch token inputs"]
Weight = Float[Tensor, "outputs inputs"]
Bias = Float[Tensor, " outputs"]
Incoming = Float[Tensor, "batch prediction token outputs"]
Outgoing = Float[Tensor, "batch prediction token inputs"]
Relevance = Float[Tensor, "batch prediction token dim"]
HeadRelevance = Float[Tensor, "batch head prediction token head_dim"]
Rows = Float[Tensor, "batch prediction dim"]

EPSILON = 1e-2
"""Stabiliser of signed ratios: below it a sum that cancels no longer blows its shares up. States
after a layer norm are of size 1; what the stabiliser takes is seen in the conservation."""
EPSILON_2019 = 1e-7
"""The constant of the code of 2019: the least weight, and what is added to every input."""


class Variant(StrEnum):
    """One of the methods that go by the name of layer-wise relevance propagation."""

    SIGNED = "signed"
    """The paper's signed weight ratio (appendix A), stabilised; see `SignedRules`."""
    CODE_2019 = "code-2019"
    """The paper's code: positive weights, absolute value, rescaling; see `PositiveRules`.
    """
    CONSTANT_ATTENTION = "constant-attention"
    """Attention weights are constants, only values get relevance; see `ConstantAttentionRules`."""


@dataclass(frozen=True)
class Core:
    """Per-head intermediate results of one attention block between its projections."""

    queries: Float[Tensor, "batch head query dim"]
    keys: Float[Tensor, "batch head key dim"]
    values: Float[Tensor, "batch head key dim"]
    scores: Float[Tensor, "batch head query key"]  # scaled, -inf where masked
    weights: Float[Tensor, "batch head query key"]
    context: Float[Tensor, "batch head query dim"]  # before the gate

    @property
    def scale(self) -> float:
        return self.queries.shape[-1] ** -0.5


@dataclass(frozen=True)
class CoreShares:
    """The relevance of an attention core's inputs; None where a rule gives them none."""

    queries: Float[Tensor, "batch head prediction query dim"] | None
    keys: Float[Tensor, "batch head prediction key dim"] | None
    values: Float[Tensor, "batch head prediction key dim"]


@runtime_checkable
class Rules(Protocol):
    """Rule by which each kind of layer shares the relevance of its outputs among its inputs."""

    def linear(
        self, inputs: Activations, weight: Weight, bias: Bias | None, relevance: Incoming
    ) -> Outgoing:
        """Through `inputs @ weight.T + bias`."""
        ...

    def logit(self, inputs: Rows, weight: Rows) -> Rows:
        """Relevance 1 through one logit a prediction, `weight` its row of the last layer."""
        ...

    def residual(
        self, skip: Activations, added: Activations, relevance: Outgoing
    ) -> tuple[Outgoing, Outgoing]:
        """Through `skip + added`, to each."""
        ...

    def attention(self, core: Core, relevance: HeadRelevance) -> CoreShares:
        """Through scores, softmax and the weighted sum of values."""
        ...

    def recurrence(
        self, forget: Activations, candidates: Activations, cells: Activations, relevance: Incoming
    ) -> Outgoing:
        """Through c_t = f_t c_{t-1} + (1 - f_t) u_t, from the cells c to the candidates u."""
        ...


def rules_of(variant: Variant) -> Rules:
    """The variant's rules with their declared constants."""
    made = {
        Variant.SIGNED: SignedRules,
        Variant.CODE_2019: PositiveRules,
        Variant.CONSTANT_ATTENTION: ConstantAttentionRules,
    }
    return made[variant]()


def stabilised(sums: Float[Tensor, "*shape"], epsilon: float) -> Float[Tensor, "*shape"]:
    """The sums, moved away from 0 by epsilon."""
    return sums + sums.new_tensor(epsilon).copysign(sums)


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
        return _by_sum(inputs, weight, stabilised(inputs @ weight.T, self.epsilon), relevance)

    def logit(self, inputs: Rows, weight: Rows) -> Rows:
        terms = inputs * weight
        return terms / stabilised(terms.sum(-1, keepdim=True), self.epsilon)

    def residual(
        self, skip: Activations, added: Activations, relevance: Outgoing
    ) -> tuple[Outgoing, Outgoing]:
        total = stabilised(skip + added, self.epsilon)
        return relevance * (skip / total)[:, None], relevance * (added / total)[:, None]

    def attention(self, core: Core, relevance: HeadRelevance) -> CoreShares:
        ratio = relevance * stabilised(core.context, self.epsilon).reciprocal()[:, :, None]
        values = _to_values(core, ratio).mul_(0.5)
        # Masked scores are -inf and have relevance 0, which the ratio keeps.
        of_scores = _to_weights(core.values, ratio)
        of_scores *= (0.5 * core.weights / stabilised(core.scores, self.epsilon))[:, :, None]
        queries, keys = _to_queries_and_keys(core, of_scores, core.queries, core.keys)
        return CoreShares(queries.mul_(0.5), keys.mul_(0.5), values)

    def recurrence(
        self, forget: Activations, candidates: Activations, cells: Activations, relevance: Incoming
    ) -> Outgoing:
        """The forget gates are constants: a cell is a sum of what it keeps and what it takes in."""
        total = stabilised(cells, self.epsilon)
        kept, taken = _terms(forget, candidates, cells)
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
        total = torch.nn.functional.linear(inputs, weight, bias)
        return _by_sum(inputs, weight, stabilised(total, self.epsilon), relevance)

    def attention(self, core: Core, relevance: HeadRelevance) -> CoreShares:
        ratio = relevance * stabilised(core.context, self.epsilon).reciprocal()[:, :, None]
        return CoreShares(None, None, _to_values(core, ratio))


@dataclass(frozen=True)
class PositiveRules:
    """The code of 2019: z+ with ε = 1e-7, then absolute value, then rescaling to what came in.

    Weights are max(W, ε), biases dropped, inputs shifted by ε; an input's relevance is the input
    times the gradient of Σ z (R/z) with R/z constant. Attention shares jointly to queries, keys and
    values through the true softmax. The code rescaled the whole tensor, which mixes the sentences
    of a batch; here every sentence and prediction is rescaled by itself.
    """

    epsilon: float = EPSILON_2019

    def linear(
        self, inputs: Activations, weight: Weight, bias: Bias | None, relevance: Incoming
    ) -> Outgoing:
        weight, inputs = weight.clamp(min=self.epsilon), inputs + self.epsilon
        total = _apart_from_zero(inputs @ weight.T, self.epsilon)
        (shared,) = rescaled(relevance, _by_sum(inputs, weight, total, relevance))
        return shared

    def logit(self, inputs: Rows, weight: Rows) -> Rows:
        terms = ((inputs + self.epsilon) * weight.clamp(min=self.epsilon)).abs()
        return terms / terms.sum(-1, keepdim=True)

    def residual(
        self, skip: Activations, added: Activations, relevance: Outgoing
    ) -> tuple[Outgoing, Outgoing]:
        skip, added = skip + self.epsilon, added + self.epsilon
        total = _apart_from_zero(skip + added, self.epsilon)
        return rescaled(
            relevance, relevance * (skip / total)[:, None], relevance * (added / total)[:, None]
        )

    def attention(self, core: Core, relevance: HeadRelevance) -> CoreShares:
        queries, keys, values = (
            each + self.epsilon for each in (core.queries, core.keys, core.values)
        )
        # Rows of weights sum to 1: shifted values shift the context, and shifted keys nothing.
        total = _apart_from_zero(core.context + self.epsilon, self.epsilon)
        ratio = relevance * total.reciprocal()[:, :, None]
        of_values = _to_values(core, ratio, values)
        of_weights = _to_weights(values, ratio)
        weights = core.weights[:, :, None]
        of_weights -= (weights * of_weights).sum(-1, keepdim=True)
        of_queries, of_keys = _to_queries_and_keys(core, of_weights.mul_(weights), queries, keys)
        # [batch head prediction token dim]: rescaled over the heads as well, as in the code.
        parts = (each.transpose(1, 2) for each in (of_queries, of_keys, of_values))
        shares = rescaled(relevance.transpose(1, 2), *parts)
        return CoreShares(*(each.transpose(1, 2) for each in shares))

    def recurrence(
        self, forget: Activations, candidates: Activations, cells: Activations, relevance: Incoming
    ) -> Outgoing:
        """The forget gates are constants. Absolute terms, as everywhere in that code, which itself
        had no recurrent layer; so nothing is lost and nothing needs rescaling."""
        kept, taken = (each.abs() for each in _terms(forget, candidates, cells))
        total = _apart_from_zero(kept + taken, self.epsilon)
        return _down_the_cells(kept / total, taken / total, relevance)


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
    before = torch.nn.functional.pad(cells[:, :-1], (0, 0, 1, 0))
    return forget * before, (1 - forget) * candidates


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


def _apart_from_zero(sums: Tensor, epsilon: float) -> Tensor:
    """The sums, with epsilon in place of an exact 0."""
    return sums.masked_fill(sums == 0, epsilon)


def _to_values(core: Core, ratio: HeadRelevance, values: Tensor | None = None) -> Tensor:
    """a_ij v_j times the ratio at i, summed over the queries i."""
    values = core.values if values is None else values
    return torch.einsum("bhij,bhpid->bhpjd", core.weights, ratio).mul_(values[:, :, None])


def _to_weights(values: Tensor, ratio: HeadRelevance) -> Tensor:
    """v_j times the ratio at i, summed over dimensions: [batch head prediction query key]."""
    return torch.einsum("bhpid,bhjd->bhpij", ratio, values)


def _to_queries_and_keys(
    core: Core, of_scores: Tensor, queries: Tensor, keys: Tensor
) -> tuple[Tensor, Tensor]:
    """Factors of scores, [batch head prediction query key], times the products q_id k_jd in them.

    Each product is summed once over the keys, for the queries, and once over the queries.
    """
    of_scores = of_scores * core.scale
    to_queries = torch.einsum("bhpij,bhjd->bhpid", of_scores, keys)
    to_keys = torch.einsum("bhpij,bhid->bhpjd", of_scores, queries)
    return to_queries.mul_(queries[:, :, None]), to_keys.mul_(keys[:, :, None])
