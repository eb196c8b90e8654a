"""Targets of encoder heads from a pronoun: the occupation of its stereotype or another (page 59).

Sentences are about pairs of occupations, so intervals draw both sides of the pairs again. The
published rows (300 cases of WinoBias, three models, also with weights drawn anew) took a minute.
"""

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.corpora.winobias import FEMALE, MALE, Case
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.attention import attention
from headbook.looking.load import load
from headbook.looking.word_weights import between, tokens_of
from headbook.models.loaded import Loaded
from headbook.results import table
from headbook.statistics import REPLICATES, draws, holm, p_value
from headbook.types import Kind

AS_IS, REDRAWN = "released", "drawn anew"
Shares = Float[np.ndarray, "case version=2 layer head"]
"""Of the weight from the pronoun to both occupations the referent's, for either pronoun."""


def pronouns(models: Sequence[str], cases: Sequence[Case]) -> pd.DataFrame:
    """One row per model, weights, measure and encoder head, tested over all heads together."""
    drawn, frames = drawn_again(cases), []
    for name in models:
        model = load(name)
        for weights in (AS_IS, REDRAWN):
            ignorant = without_knowledge(model.network, Null.DRAWN, 0)
            with nullcontext() if weights == AS_IS else ignorant:
                shares = referent_shares(model, cases)
            layer, head = np.indices(shares.shape[2:]).reshape(2, -1) + 1
            measures = {"stereotype": stereotyped(cases, shares), "referent": resolved(shares)}
            for measure, values in measures.items():
                labels = {"model": name, "weights": weights, "measure": measure}
                labels |= {"layer": layer, "head": head, "cases": len(cases)}
                rows = table(labels, value=mean(drawn, values.reshape(len(cases), -1)))
                frames.append(rows.assign(p=adjusted(rows)))
    return pd.concat(frames, ignore_index=True)


def occupations(case: Case) -> tuple[str, str]:
    """The male- and the female-stereotyped occupation of a case."""
    version = next(iter(case.versions.values()))
    own, other = (version.text[slice(*part)].lower() for part in (version.referent, version.other))
    return (own, other) if case.stereotype == MALE else (other, own)


def drawn_again(cases: Sequence[Case]) -> Float[np.ndarray, "replicate case"]:
    """Number of times each replicate counts each case; row 0 counts every case once.

    Male- and female-stereotyped occupations are drawn again apart, and a case counts as often as
    both of its own together (pigeonhole bootstrap, Owen 2007). Sentences that share an occupation
    are no replicates of each other.
    """
    found = np.ones((REPLICATES, len(cases)))
    for side, names in enumerate(zip(*map(occupations, cases), strict=True)):
        known = sorted(set(names))
        drawn = draws(len(known), REPLICATES, side)
        found *= drawn[:, [known.index(name) for name in names]]
    return np.concatenate([np.ones((1, len(cases))), found])


def mean(
    drawn: Float[np.ndarray, "replicate case"], values: np.ndarray, over: np.ndarray | None = None
) -> np.ndarray:
    """The mean of values [case, ...] in every replicate; or their sum as a share of that of `over`.

    NaN where nothing is left to divide by.
    """
    above = drawn @ values
    below = drawn @ (np.ones_like(values) if over is None else over)
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def adjusted(rows: pd.DataFrame) -> np.ndarray:
    """p-values of the rows' means against zero, two-sided and adjusted over all rows (Holm)."""
    ends = rows[["value", "value_low", "value_high"]].to_numpy()
    return holm([p_value(*each, 0.0, None) for each in ends])


def stereotyped(cases: Sequence[Case], shares: Shares) -> Float[np.ndarray, "case layer head"]:
    """Difference in the share of the male-stereotyped occupation for a male pronoun rather than for
    a female one in the same sentence; 0 for a head that does not know of stereotypes."""
    male = np.array([case.stereotype == MALE for case in cases])[:, None, None, None]
    shares = np.where(male, shares, 1 - shares)
    return shares[:, 0] - shares[:, 1]


def resolved(shares: Shares) -> Float[np.ndarray, "case layer head"]:
    """The referent's share of the weight on both, less one half, mean over both versions."""
    return shares.mean(1) - 0.5


def referent_shares(model: Loaded, cases: Sequence[Case]) -> Shares:
    """A half where neither occupation has weight; UserError for a model without an encoder."""
    versions = [case.versions[gender] for case in cases for gender in (MALE, FEMALE)]
    seen = attention(model, [each.text for each in versions], "tokens", Kind.ENCODER)
    found = []
    for version, own in zip(versions, seen, strict=True):
        spans, weights = model.spans(version.text), own.weights.astype(float)
        named = (version.pronoun, version.referent, version.other)
        pronoun, *parts = (tokens_of(spans, part) for part in named)
        found.append([between(weights, pronoun, part) for part in parts])
    referent, other = np.moveaxis(found, 1, 0)
    total = referent + other
    shares = np.divide(referent, total, out=np.full_like(total, 0.5), where=total > 0)
    return shares.reshape(len(cases), 2, *shares.shape[1:])
