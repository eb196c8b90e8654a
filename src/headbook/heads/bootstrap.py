"""Bootstrap weights of a sentence from its number alone: order and batching change nothing.

Replicate r gives sentence s a Poisson(1) weight, which is how often s would be drawn in a resample
of a long corpus. The weight is a hash of (s, r): no generator, no state, nothing to keep a sentence
for. Two measures over the same sentences therefore share their resamples and may be subtracted.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

_INCREMENT = 0x9E3779B97F4A7C15 - (1 << 64)
_MULTIPLIERS = (0xBF58476D1CE4E5B9 - (1 << 64), 0x94D049BB133111EB - (1 << 64))
_HALF_STREAM = -1
"""Replicates count from 1, so the choice of half never shares a draw with one of them."""
_LARGEST_WEIGHT = 20
"""P(Poisson(1) > 20) is below 2^-53, the grain of the draws."""


def mixed(value: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """The splitmix64 step and finaliser on 64-bit integers, wrapping as unsigned ones do."""
    value = value + _INCREMENT
    for shift, multiplier in zip((30, 27), _MULTIPLIERS, strict=True):
        value = (value ^ _shifted(value, shift)) * multiplier
    return value ^ _shifted(value, 31)


def uniform(bits: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Float64 in [0, 1) from the upper 53 bits."""
    return _shifted(bits, 11).double() * 2.0**-53


def poisson_weights(
    sentences: Int[Tensor, " batch"], replicates: int
) -> Float[Tensor, "batch replicate"]:
    """Float64 weights: column 0 is 1 for every sentence, the `replicates` others are Poisson(1)."""
    numbers = torch.arange(1, replicates + 1, device=sentences.device)
    draws = uniform(mixed(mixed(sentences.long())[:, None] + numbers))
    chances = [math.exp(-1) / math.factorial(k) for k in range(_LARGEST_WEIGHT)]
    steps = torch.tensor(chances, dtype=torch.float64, device=sentences.device).cumsum(0)
    resampled = torch.bucketize(draws, steps, right=True).double()
    return torch.cat([resampled.new_ones(len(sentences), 1), resampled], dim=1)


def half_of(sentences: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
    """0 or 1 for each sentence, about equally often: choose on one half, score on the other."""
    return mixed(mixed(sentences.long()) + _HALF_STREAM) & 1


@dataclass(frozen=True)
class Resamples:
    """A batch's sentences in each half of the corpus, and how often each replicate draws them."""

    members: tuple[Int[Tensor, " first"], Int[Tensor, " second"]]
    weights: tuple[Float[Tensor, "replicate first"], Float[Tensor, "replicate second"]]

    @classmethod
    def of(cls, sentences: Int[Tensor, " batch"], replicates: int) -> "Resamples":
        """Replicate 0 draws every sentence once."""
        weights, halves = poisson_weights(sentences, replicates), half_of(sentences)
        members = [(halves == half).nonzero().squeeze(1) for half in (0, 1)]
        return cls(tuple(members), tuple(weights[rows].T.contiguous() for rows in members))

    def sums(self, values: Float[Tensor, "batch ..."]) -> Float[Tensor, "half=2 replicate ..."]:
        """Float64 sums over each half's sentences, as often as they are drawn."""
        flat = values.double().flatten(1) if values.ndim > 1 else values.double()[:, None]
        halves = zip(self.members, self.weights, strict=True)
        sums = torch.stack([weights @ flat[rows] for rows, weights in halves])
        return sums.reshape(*sums.shape[:2], *values.shape[1:])


def _shifted(value: Int[Tensor, "*shape"], bits: int) -> Int[Tensor, "*shape"]:
    """Right shift that brings in zeros; torch's own repeats the sign."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)
