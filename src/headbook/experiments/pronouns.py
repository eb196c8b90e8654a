"""Targets of encoder heads from a pronoun: the occupation of its stereotype or another (page 59).

Sentences are about pairs of occupations, so intervals draw both sides of the pairs again. The
published rows (300 cases of WinoBias, three models, also with weights drawn anew) took a minute.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.corpora.winobias import FEMALE, MALE, Case, Version
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.load import load
from headbook.looking.word_weights import between, tokens_of
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.statistics import REPLICATES, draws, holm, interval, p_value
from headbook.types import Kind, UserError

AS_IS, REDRAWN = "released", "drawn anew"


def pronouns(models: Sequence[str], cases: Sequence[Case]) -> pd.DataFrame:
    """One row per model, weights, measure and encoder head, tested over all heads together."""
    drawn, frames = drawn_again(cases), []
    for name in models:
        model = load(name)
        for weights in (AS_IS, REDRAWN):
            ignorant = without_knowledge(model.network, Null.DRAWN, 0)
            with nullcontext() if weights == AS_IS else ignorant:
                found = pronoun_weights(model, cases)
            for measure, values in zip(
                ("stereotype", "referent"), (found.stereotyped(), found.resolved()), strict=True
            ):
                rows = adjusted(drawn, values.reshape(len(values), -1))
                layer, head = np.divmod(np.arange(len(rows)), values.shape[-1])
                labels = {"model": name, "weights": weights, "measure": measure}
                labels |= {"layer": layer + 1, "head": head + 1, "cases": len(cases)}
                frames.append(pd.DataFrame(labels).join(rows))
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


def adjusted(
    drawn: Float[np.ndarray, "replicate case"], values: Float[np.ndarray, "case head"]
) -> pd.DataFrame:
    """Mean over cases of every head with its interval, and p-values against zero, two-sided and
    adjusted over all heads (Holm)."""
    value, low, high = np.transpose([interval(each) for each in mean(drawn, values).T])
    each = [p_value(*numbers, 0.0, None) for numbers in zip(value, low, high, strict=True)]
    return pd.DataFrame({"value": value, "value_low": low, "value_high": high, "p": holm(each)})


@dataclass(frozen=True)
class PronounWeights:
    """Weight from the pronoun to both occupations, of every encoder head in every version.

    The last axis is (referent, other); versions are those with a male and with a female pronoun.
    """

    cases: Sequence[Case]
    weights: Float[np.ndarray, "case version=2 layer head occupation=2"]

    def stereotyped(self) -> Float[np.ndarray, "case layer head"]:
        """Difference in the share of the male-stereotyped occupation for a male pronoun rather than
        for a female one in the same sentence; 0 for a head that does not know of stereotypes."""
        male = np.array([case.stereotype == MALE for case in self.cases])[:, None, None, None]
        referent = self._shares()
        shares = np.where(male, referent, 1 - referent)
        return shares[:, 0] - shares[:, 1]

    def resolved(self) -> Float[np.ndarray, "case layer head"]:
        """The referent's share of the weight on both, less one half, mean over both versions."""
        return self._shares().mean(1) - 0.5

    def _shares(self) -> Float[np.ndarray, "case version layer head"]:
        total = self.weights.sum(-1)
        return np.divide(self.weights[..., 0], total, out=np.full_like(total, 0.5), where=total > 0)


@torch.no_grad()
def pronoun_weights(model: Loaded, cases: Sequence[Case]) -> PronounWeights:
    """From one pass over all versions; UserError for a model without an encoder."""
    versions = [case.versions[gender] for case in cases for gender in (MALE, FEMALE)]
    rows: list[np.ndarray | None] = [None] * len(versions)
    for batch in model.batches([each.text for each in versions]):
        with capture(model.network, {Point.WEIGHTS}) as tape:
            model.network(batch)
        if (Kind.ENCODER, Point.WEIGHTS) not in tape:
            raise UserError(f"{model.name} has no encoder; name a model with encoder attention")
        layers = torch.stack(tape[Kind.ENCODER, Point.WEIGHTS], dim=1)
        for weights, number in zip(layers, batch.sentences.tolist(), strict=True):
            rows[number] = _of(model, versions[number], weights)
    found = np.stack([row for row in rows if row is not None])
    return PronounWeights(cases, found.reshape(len(cases), 2, *found.shape[1:]))


def _of(model: Loaded, version: Version, weights: Tensor) -> np.ndarray:
    spans = model.spans(version.text)
    pronoun = tokens_of(spans, version.pronoun)
    each = [
        between(weights, pronoun, tokens_of(spans, part))
        for part in (version.referent, version.other)
    ]
    return torch.stack(each, dim=-1).double().cpu().numpy()
