"""One layer of attention that recalls the value of a key: Schlag et al. 2021, section 6.1."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from headbook.models.attention import split
from headbook.models.fast_weights import (
    Features,
    delta_weights,
    dpfp,
    elu_plus_one,
    favor,
    orthogonal_directions,
)
from headbook.types import UserError

SMALLEST = 1e-6
"""Added to the normaliser of the sum rule, as in the authors' code."""


class Rule(StrEnum):
    """Schedule of writing positions to the memory and reading them."""

    SOFTMAX = "softmax"  # no memory: every key is kept and compared
    SUM = "sum"
    DELTA = "delta rule"


class Split(StrEnum):
    """Division of memory among heads: features always, values optionally."""

    FEATURES = "features"
    """Each head stores whole values, so all memories together are as large as one head's."""
    VALUES = "features and values"
    """Each head stores its slice of the values, as in multi-head attention of one width."""


@dataclass(frozen=True)
class Memory:
    """The rule, the feature map by name, the width of keys before the map, and heads."""

    rule: Rule = Rule.SUM
    map: str = "ELU + 1"
    dim: int = 64
    heads: int = 1
    split: Split = Split.FEATURES

    def __post_init__(self) -> None:
        if self.heads < 1 or self.dim % self.heads:
            raise UserError(f"keys {self.dim} wide cannot be divided among {self.heads} heads")
        if self.rule is not Rule.SOFTMAX:
            feature_map(self.map, self.dim // self.heads)  # an unknown one is refused here

    @property
    def features(self) -> int | None:
        """Features of all heads together; None for the softmax, whose number has no end."""
        if self.rule is Rule.SOFTMAX:
            return None
        width = self.dim // self.heads
        return self.heads * feature_map(self.map, width)(None)(torch.zeros(1, width)).shape[-1]


ONCE, SCALED = "once", "scaled"
Drawn = Callable[[torch.Generator | None], Features]
"""Gives the map of one pass: random features are drawn for queries and keys together."""


def feature_map(name: str, dim: int) -> Drawn:
    """`ELU + 1`, `DPFP-ν` or `FAVOR+ m` of keys `dim` wide; UserError for any other.

    FAVOR+ has m directions and their opposites, 2 m features. They are drawn anew at every pass and
    keys are not scaled, as in the authors' code. `FAVOR+ m, once` draws them once, `FAVOR+ m,
    scaled` multiplies keys and queries by dim^(-1/4), as the Performer does; both can be given.
    """
    first, *options = name.split(", ")
    kind, _, number = first.replace("-", " ", 1).partition(" ")
    if name == "ELU + 1":
        return lambda _: elu_plus_one
    if kind == "DPFP" and number.isdigit() and not options:
        return lambda _: partial(dpfp, nu=int(number))
    if kind == "FAVOR+" and number.isdigit() and {*options} <= {ONCE, SCALED}:
        return _random(int(number), dim, ONCE in options, dim**-0.25 if SCALED in options else 1.0)
    raise UserError(
        f"unknown feature map {name!r}; use ELU + 1, DPFP-ν or FAVOR+ m, the last also with "
        f"', {ONCE}' or ', {SCALED}' behind it"
    )


def _random(count: int, dim: int, once: bool, scale: float) -> Drawn:
    def directions(seed: int) -> Tensor:
        half = orthogonal_directions(count, dim, seed, torch.float32)
        return torch.cat([half, -half])

    fixed = directions(0)

    def drawn(generator: torch.Generator | None) -> Features:
        anew = not once and generator is not None
        these = directions(int(_number(generator))) if anew else fixed
        return lambda x: favor(x * scale, these)

    return drawn


def _number(generator: torch.Generator) -> Tensor:
    return torch.randint(2**31, (), generator=generator)


class Recaller(nn.Module):
    """Reads pairs of key and value and answers queries with a value, as the authors' model does.

    Keys are embedded 2.2 times `count` wide and projected together with the value that stands
    there, a one-hot vector that nothing is learned of; queries are projected keys.
    """

    def __init__(self, count: int, memory: Memory, generator: torch.Generator) -> None:
        super().__init__()
        width, self.memory, self.count = int(2.2 * count), memory, count
        self.embedding = nn.Parameter(torch.randn(count, width))
        self.key_of_key = nn.Linear(width, memory.dim)
        self.key_of_value = nn.Parameter(torch.empty(count, memory.dim))
        self.query = nn.Linear(width, memory.dim)
        self.strength_of_key = nn.Linear(width, 1)
        self.strength_of_value = nn.Parameter(torch.zeros(count, 1))
        self.gains = nn.Parameter(torch.full((memory.heads,), 1.0))
        self.generator = generator  # of random features
        if memory.rule is not Rule.SOFTMAX:
            self.map = feature_map(memory.map, memory.dim // memory.heads)
        self._start(width)

    def _start(self, width: int) -> None:
        """Initial weights of the authors' two models; biases are torch's."""
        dim = self.memory.dim
        keys = queries = dim**-0.5
        if self.memory.rule is Rule.SOFTMAX:  # Glorot, of one matrix for a key and its value
            keys, queries = (math.sqrt(6 / (size + dim)) for size in (width + self.count, width))
        for weights in (self.key_of_key.weight, self.key_of_value):
            nn.init.uniform_(weights, -keys, keys)
        nn.init.uniform_(self.query.weight, -queries, queries)
        if self.memory.heads > 1 and self.memory.split is Split.FEATURES:
            nn.init.constant_(self.gains, 1 / self.memory.heads)
        self.gains.requires_grad_(self.memory.heads > 1)

    def forward(
        self,
        keys: Int[Tensor, "batch time"],
        values: Int[Tensor, "batch time"],
        queries: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch query value"]:
        """The values that the memory gives, as sums of one-hot vectors."""
        weights = self.weights(keys, values, queries)
        if self.memory.split is Split.VALUES:
            # a value is stored by the head of its slice alone
            owner = values * self.memory.heads // self.count
            index = owner[:, None, None].expand(-1, 1, weights.shape[2], -1)
            mixed = (self.gains[:, None, None] * weights).gather(1, index)[:, 0]
        else:
            mixed = torch.einsum("h,bhqt->bqt", self.gains, weights)
        nothing = mixed.new_zeros(*mixed.shape[:2], self.count)
        return nothing.scatter_add(2, values[:, None].expand_as(mixed), mixed)

    def weights(
        self,
        keys: Int[Tensor, "batch time"],
        values: Int[Tensor, "batch time"],
        queries: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch head query time"]:
        """Weight of each position's value in a query's answer."""
        # every key and value is projected once, however often it stands somewhere
        projected = self.key_of_key(self.embedding)
        written = embedding(keys, projected) + embedding(values, self.key_of_value)
        asked = self.query(embedding(queries, self.embedding))
        key, query = (split(each, self.memory.heads) for each in (written, asked))
        if self.memory.rule is Rule.SOFTMAX:
            return (query @ key.mT / math.sqrt(key.shape[-1])).softmax(-1)
        features = self.map(self.generator)
        key, query = features(key), features(query)
        if self.memory.rule is Rule.DELTA:
            strength = self.strength_of_key(self.embedding)[keys] + self.strength_of_value[values]
            return delta_weights(query, key, strength[..., 0].sigmoid()[:, None])
        products = query @ key.mT
        return products / (products.sum(-1, keepdim=True) + SMALLEST)
