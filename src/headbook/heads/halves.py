"""The best of many heads without the luck of the draw: chosen on one half of the sentences, scored
on the other, with intervals over sentences."""

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped

from headbook.heads.bootstrap import Resamples
from headbook.heads.measure import REPLICATES


def shares(
    hits: Shaped[np.ndarray, "sentence *candidate question"],
    asked: Shaped[np.ndarray, "sentence question"],
    half: int | None = None,
    replicates: int = REPLICATES,
) -> Float[np.ndarray, "replicate *candidate question"]:
    """Share of questions answered right, [1 + replicate, …, question]: hits over questions.

    `hits` is [sentence, …, question] and `asked` [sentence, question], both per sentence. Row 0 has
    every sentence once; in each further row sentences are drawn anew (a bootstrap: one sentence
    counts as often as it is drawn, the same way for all measures of the same sentences, so that
    rows may be subtracted). `half` 0 or 1 takes that half of the sentences alone. NaN where nothing
    was asked.
    """
    hits, asked = (torch.from_numpy(np.array(each, float)) for each in (hits, asked))
    drawn = Resamples.of(torch.arange(len(asked)), replicates)
    top, below = (
        (sums.sum(0) if half is None else sums[half]).numpy()
        for sums in (drawn.sums(hits), drawn.sums(asked))
    )
    below = below.reshape(len(below), *[1] * (top.ndim - below.ndim), *below.shape[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        return top / below


def best(
    hits: Shaped[np.ndarray, "sentence candidate question"],
    asked: Shaped[np.ndarray, "sentence question"],
    other_hits: Shaped[np.ndarray, "sentence candidate question"] | None = None,
    other_asked: Shaped[np.ndarray, "sentence question"] | None = None,
) -> tuple[Int[np.ndarray, " question"], Float[np.ndarray, "replicate question"]]:
    """The best candidate for each question, and its share of right answers.

    `hits` is [sentence, candidate, question]; candidates are heads, offsets or rules. The candidate
    is chosen on one half of the sentences (the first of equals) and its share, [1 + replicate,
    question], is that on the other half: among many candidates one looks good by luck, and luck
    does not repeat. Where the first half asks nothing, the candidate is -1 and its share NaN.
    `other_hits` and `other_asked`, of the same sentences, are scored in the place of those that it
    was chosen by.
    """
    by = shares(hits, asked, half=0, replicates=0)[0]
    chosen = np.nan_to_num(by, nan=-np.inf).argmax(0)
    if other_hits is not None:
        hits, asked = other_hits, other_asked
    share = shares(hits, asked, half=1)[:, chosen, np.arange(len(chosen))]
    nothing = np.isnan(by).all(0)
    return np.where(nothing, -1, chosen), np.where(nothing, np.nan, share)
