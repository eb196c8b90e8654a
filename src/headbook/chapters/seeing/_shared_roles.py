"""Do the heads of two models that read two languages have the same roles in the same places?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from headbook.heads.measure import REPLICATES, RatioSums
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.passes import aligned, attention_measures, pass_over, ranks_in, role_measures
from headbook.looking.table import ONE_OF_TWO, RELATIONS
from headbook.looking.text import text
from headbook.models.loaded import Loaded
from headbook.statistics import (
    LEVEL,
    drawn_within,
    holm,
    interval,
    mean_of_known,
    within_layers,
)
from headbook.types import Kind, UserError

POSITION = {"previous token": -1, "own token": 0, "next token": 1}
FAMILIES = {
    "position": tuple(POSITION), "words": ("special tokens", "rare words"), "syntax": RELATIONS,
}  # fmt: skip
ROLES = tuple(role for family in FAMILIES.values() for role in family)
DRAWS = 1000
SAME, MATCHED, CEILING = "same number", "matched", "same model, two halves"
LAYER, UNTRAINED = "matched, another layer", "matched, drawn anew"

Scores = Float[np.ndarray, "layer head role"]
Pair = tuple[Scores, Scores]
Order = Int[np.ndarray, "layer head"]


@dataclass(frozen=True)
class Roles:
    """Every encoder head's score in every role of ROLES: on all sentences, and on both halves."""

    whole: Scores
    halves: tuple[Scores, Scores]


def compared(models: Sequence[Loaded], texts: Sequence[str], sentences: int) -> dict[str, Pair]:
    """The first model's scores, and those that they are compared with, by name of the comparison.

    Each model reads its text. Matched are also another layer of the first model itself, which shows
    how far any trained heads fall into the same profiles, and the second model drawn anew.
    """
    first, second = map(role_scores, models, texts, [sentences] * 2)
    with without_knowledge(models[1].network, Null.DRAWN, 0):
        untrained = role_scores(models[1], texts[1], sentences).whole
    other = np.roll(first.whole, 1, axis=0)
    return {
        SAME: (first.whole, second.whole),
        MATCHED: (first.whole, left_out(first.whole, second.whole)),
        LAYER: (first.whole, left_out(first.whole, other)),
        UNTRAINED: (first.whole, left_out(first.whole, untrained)),
        CEILING: first.halves,
    }


def role_scores(model: Loaded, name: str, sentences: int) -> Roles:
    """From the first sentences of a treebank in the model's language."""
    treebank = text(name, first=sentences)
    batches = model.batches(treebank.sentences)
    trees, ranks = aligned(model, treebank), ranks_in(batches)
    measures = attention_measures(Kind.ENCODER, 0) | role_measures(trees, ranks, 0)
    sums = pass_over(model.network, batches, measures, shown=False)
    whole, *halves = (_scores(sums, half) for half in (None, 0, 1))
    if any(np.isnan(each).any() for each in (whole, *halves)):
        raise UserError(f"{sentences} sentences of {name} lack a relation: give more of them")
    return Roles(whole, (halves[0], halves[1]))


def _scores(sums: dict[str, RatioSums], half: int | None) -> Scores:
    offsets = sums["positional"].ratio(half)
    middle = offsets.shape[-1] // 2
    columns = [offsets[..., middle + offset] for offset in POSITION.values()]
    columns += [sums["special"].ratio(half), sums["rare"].ratio(half)[..., ONE_OF_TWO]]
    syntax = sums["syntactic"].ratio(half)
    return np.stack([*(each.numpy() for each in columns),
                     *np.moveaxis(syntax.numpy(), -1, 0)], axis=-1)  # fmt: skip


def matching(first: Scores, second: Scores, roles: Sequence[int]) -> Order:
    """Match of the second model's heads to those of the first, layer by layer, one to one.

    The assignment with the least sum of squared differences of the heads' ranks within their
    layer, over these roles (Hungarian method).
    """
    here, there = (rankdata(each[..., list(roles)], axis=1) for each in (first, second))
    cost = np.square(here[:, :, None] - there[:, None]).sum(-1)
    return np.stack([linear_sum_assignment(layer)[1] for layer in cost])


def reordered(scores: Scores, order: Order) -> Scores:
    """Heads in another order, layer by layer."""
    return np.take_along_axis(scores, order[..., None], axis=1)


def left_out(first: Scores, second: Scores) -> Scores:
    """The second's scores with heads matched by the roles of all *other* families.

    So that no role is compared on the heads that it chose itself.
    """
    found = np.empty_like(second)
    for family in FAMILIES.values():
        own = [ROLES.index(role) for role in family]
        others = [at for at in range(len(ROLES)) if at not in own]
        found[..., own] = reordered(second, matching(first, second, others))[..., own]
    return found


def correlations(
    first: Float[np.ndarray, "*batch layer head role"],
    second: Float[np.ndarray, "*batch layer head role"],
) -> Float[np.ndarray, "*batch role"]:
    """Spearman's ρ over the heads of each layer, mean over layers, of every role."""
    pairs = (np.moveaxis(each, -1, -3) for each in (first, second))
    return mean_of_known(within_layers(*pairs))


def by_chance(first: Scores, second: Scores) -> Float[np.ndarray, "draw role"]:
    """The same with the second's heads in random order within their layers."""
    noise = np.random.default_rng(0)
    layers, heads, _ = second.shape
    orders = noise.permuted(np.tile(np.arange(heads), (DRAWS, layers, 1)), axis=-1)
    drawn = second[np.arange(layers)[:, None], orders]
    return correlations(np.broadcast_to(first, drawn.shape), drawn)


@dataclass(frozen=True)
class Shared:
    """Correlation of every role with its interval over heads, and against random orders.

    `p` is the share of random orders that correlate as well, adjusted over roles (Holm); `chance`
    the correlation that 2.5 % of them exceed.
    """

    value: Float[np.ndarray, " role"]
    low: Float[np.ndarray, " role"]
    high: Float[np.ndarray, " role"]
    chance: Float[np.ndarray, " role"]
    p: Float[np.ndarray, " role"]
    mean: tuple[float, float, float]
    mean_chance: tuple[float, float]

    @classmethod
    def of(cls, first: Scores, second: Scores) -> "Shared":
        replicates = _resampled(first, second)
        value, low, high = np.transpose([interval(column) for column in replicates.T])
        null = by_chance(first, second)
        p = (1 + (null >= value).sum(0)) / (1 + len(null))
        ends = np.quantile(null.mean(1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(value, low, high, np.quantile(null, (1 + LEVEL) / 2, axis=0), holm(p),
                   interval(replicates.mean(1)), (float(ends[0]), float(ends[1])))  # fmt: skip


def _resampled(first: Scores, second: Scores) -> Float[np.ndarray, "replicate role"]:
    """Heads drawn again within their layers, in both models together; row 0 as they are."""
    layers, heads, _ = first.shape
    drawn = drawn_within(np.repeat(np.arange(layers), heads).tolist(), REPLICATES)
    again = (each.reshape(layers * heads, -1)[drawn] for each in (first, second))
    return correlations(*(each.reshape(len(drawn), *first.shape) for each in again))


def beyond(first: Pair, other: Pair) -> tuple[float, float, float]:
    """Mean correlation of one comparison minus another's, on the same heads drawn again."""
    return interval(_resampled(*first).mean(1) - _resampled(*other).mean(1))
