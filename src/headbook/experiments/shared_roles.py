"""Do the heads of two models that read two languages have the same roles in the same places?

The published rows of page 59 (500 sentences of PUD in English and in Portuguese) took two minutes.
"""

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.stats import rankdata

from headbook.heads.collect import layer_sums
from headbook.heads.measure import REPLICATES, RatioSums
from headbook.heads.nulls import Null, without_knowledge
from headbook.heads.scores import ranks_in
from headbook.looking.load import load
from headbook.looking.passes import aligned, measures
from headbook.looking.table import ONE_OF_TWO, RELATIONS
from headbook.looking.text import text
from headbook.models.loaded import Loaded
from headbook.results import table
from headbook.statistics import LEVEL, drawn_within, holm, mean_of_known, within_layers
from headbook.types import Kind

POSITION = {"previous token": -1, "own token": 0, "next token": 1}
FAMILIES = tuple(POSITION), ("special tokens", "rare words"), RELATIONS
ROLES = tuple(role for family in FAMILIES for role in family)
DRAWS = 1000
MEAN = "mean"
SAME, MATCHED, CEILING = "same number", "matched", "same model, two halves"
LAYER, UNTRAINED = "matched, another layer", "matched, drawn anew"
BEYOND = "matched minus another layer"

Scores = Float[np.ndarray, "*batch layer head role"]


def roles(sentences: int) -> pd.DataFrame:
    """One row per role and comparison, one for their mean, and one that compares two of these."""
    first, *halves = role_scores(load("firefox-en-pt"), "ud-pud-en", sentences)
    other = load("firefox-pt-en"), "ud-pud-pt", sentences  # the same in the language that it reads
    second, *_ = role_scores(*other)
    with without_knowledge(other[0].network, Null.DRAWN, 0):
        untrained, *_ = role_scores(*other)
    pairs = {
        SAME: (first, second),
        MATCHED: (first, left_out(first, second)),
        LAYER: (first, left_out(first, np.roll(first, 1, axis=0))),
        UNTRAINED: (first, left_out(first, untrained)),
        CEILING: halves,
    }
    frames = [shared(*pair).assign(heads=name) for name, pair in pairs.items()]
    layers = _resampled(*pairs[MATCHED]).mean(1) - _resampled(*pairs[LAYER]).mean(1)
    frames.append(table({"role": MEAN}, value=layers[:, None]).assign(heads=BEYOND))
    return pd.concat(frames, ignore_index=True).assign(sentences=sentences)


def role_scores(model: Loaded, name: str, sentences: int) -> list[Scores]:
    """Every encoder head in every role, on the first sentences of a treebank and on both halves."""
    treebank = text(name, first=sentences)
    batches = model.batches(treebank.sentences)
    of = measures(Kind.ENCODER, aligned(model, treebank), ranks_in(batches))
    sums = layer_sums(model.network, batches, Kind.ENCODER, of, 0)
    return [_scores(sums, half) for half in (None, 0, 1)]


def _scores(sums: dict[str, RatioSums], half: int | None) -> Scores:
    offsets = sums["positional"].ratio(half)
    columns = [offsets[..., offsets.shape[-1] // 2 + offset] for offset in POSITION.values()]
    columns += [sums["special"].ratio(half), sums["rare"].ratio(half)[..., ONE_OF_TWO]]
    syntax = np.moveaxis(sums["syntactic"].ratio(half).numpy(), -1, 0)
    return np.stack([*(each.numpy() for each in columns), *syntax], axis=-1)


def matching(first: Scores, second: Scores) -> Int[np.ndarray, "layer head"]:
    """Match of the second model's heads to those of the first, layer by layer, one to one.

    The assignment with the least sum of squared differences of the heads' ranks within their
    layer, over the roles given (Hungarian method).
    """
    here, there = (rankdata(each, axis=1) for each in (first, second))
    cost = np.square(here[:, :, None] - there[:, None]).sum(-1)
    return np.stack([linear_sum_assignment(layer)[1] for layer in cost])


def left_out(first: Scores, second: Scores) -> Scores:
    """The second's scores with heads matched by the roles of all *other* families."""
    found = np.empty_like(second)
    for family in FAMILIES:
        own = np.isin(ROLES, family)
        order = matching(first[..., ~own], second[..., ~own])
        found[..., own] = np.take_along_axis(second, order[..., None], axis=1)[..., own]
    return found


def correlations(first: Scores, second: Scores) -> Float[np.ndarray, "*batch role"]:
    """Spearman's ρ over the heads of each layer, mean over layers, of every role; or of many draws
    of scores [batch, layer, head, role]."""
    pairs = (np.moveaxis(each, -1, -3) for each in (first, second))
    return mean_of_known(within_layers(*pairs))


def shared(first: Scores, second: Scores) -> pd.DataFrame:
    """Correlation of every role, and their mean, with intervals over heads.

    `chance` is what 2.5 % of random orders of the heads exceed, `p` the share of them that
    correlate as well, adjusted over roles (Holm).
    """
    replicates = _resampled(first, second)
    noise, (layers, heads, _) = np.random.default_rng(0), second.shape
    orders = noise.permuted(np.tile(np.arange(heads), (DRAWS, layers, 1)), axis=-1)
    drawn = second[np.arange(layers)[:, None], orders]
    null = correlations(np.broadcast_to(first, drawn.shape), drawn)
    p = holm((1 + (null >= replicates[0]).sum(0)) / (1 + DRAWS))
    found = table({"role": [*ROLES, MEAN]}, value=_with_mean(replicates))
    chance = np.quantile(_with_mean(null), (1 + LEVEL) / 2, axis=0)
    return found.assign(chance=chance, p=[*p, np.nan])


def _with_mean(values: Float[np.ndarray, "draw role"]) -> Float[np.ndarray, "draw column"]:
    return np.column_stack([values, values.mean(1)])


def _resampled(first: Scores, second: Scores) -> Float[np.ndarray, "replicate role"]:
    """Heads drawn again within their layers, in both models together; row 0 as they are."""
    layers, heads, _ = first.shape
    drawn = drawn_within(np.repeat(np.arange(layers), heads).tolist(), REPLICATES)
    again = (each.reshape(layers * heads, -1)[drawn] for each in (first, second))
    return correlations(*(each.reshape(len(drawn), *first.shape) for each in again))
