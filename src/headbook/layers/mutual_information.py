"""Mutual information between representations and tokens, through clusters of representations.

Voita, Sennrich and Titov (2019) cluster the representations of a layer by mini-batch k-means and
take the discrete mutual information of cluster and token. It is biased upward: by about
(clusters - 1)(tokens - 1) / (2 · occurrences) nats where the two are independent, and less where
they are not. The null is that bias as it is here: the same clusters with the tokens shuffled.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import mutual_info_score
from torch import Tensor

from headbook.types import UserError

SHUFFLES = 5


class Information(NamedTuple):
    """In nats. `null` is a mean over shuffles; `entropy`, of the tokens, is the most there is."""

    nats: float
    null: float
    entropy: float


def clusters(
    states: Float[Tensor, "token model"], count: int, seed: int
) -> Int[np.ndarray, " token"]:
    """The number of each token's cluster, of `count`. UserError for fewer tokens than clusters."""
    if len(states) < count:
        raise UserError(
            f"{len(states)} occurrences of tokens make no {count} clusters: "
            "give more sentences, or fewer clusters"
        )
    return MiniBatchKMeans(count, n_init=1, random_state=seed).fit_predict(states.numpy())


def information(
    found: Int[np.ndarray, " token"], tokens: Int[Tensor, " token"], seed: int
) -> Information:
    """Mutual information of clusters and tokens, and what is left of it after shuffling."""
    labels = tokens.numpy()
    chance = np.random.default_rng(seed)
    nulls = [mutual_info_score(chance.permutation(labels), found) for _ in range(SHUFFLES)]
    own = mutual_info_score(labels, found), np.mean(nulls), mutual_info_score(labels, labels)
    return Information(*map(float, own))
