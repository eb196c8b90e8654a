"""Targets of encoder heads from a pronoun: the occupation of its stereotype or another."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.corpora.winobias import FEMALE, MALE, Case, Version
from headbook.looking.word_weights import between, tokens_of
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.types import Kind, UserError


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
    each = [between(weights, pronoun, tokens_of(spans, part))
            for part in (version.referent, version.other)]  # fmt: skip
    return torch.stack(each, dim=-1).double().cpu().numpy()
