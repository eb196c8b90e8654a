"""BLEU of resampled test sets, and whether two translations of one set differ by more than luck."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sacrebleu.metrics import BLEU

from headbook.statistics import draws, interval
from headbook.types import UserError

METRIC = BLEU()
"""Of cased text, with the 13a tokeniser."""
SAMPLES = 1000
SEED = 12345
"""sacrebleu's default seed, so that its p is ours to the last digit."""

Statistics = Int[np.ndarray, "sentence 10"]
"""A sentence a row: tokens of the translation and of the reference, then n-grams of orders 1 to 4
that are right, then those there are."""


@dataclass(frozen=True)
class Paired:
    """BLEU of one translation minus another's, its 95 % interval, and sacrebleu's two-sided p.

    The interval is that of the difference over resampled sentences; both are resampled alike.
    """

    difference: float
    low: float
    high: float
    p: float


def enough(tests: int, level: float, least: int) -> int:
    """Samples for p-values that are corrected for so many tests (Holm) and compared with a level.

    p is at least 1 / (samples + 1), and the smallest is multiplied by `tests`: of too few samples
    none could be below the level, however large the difference.
    """
    return max(least, math.ceil(1.5 * tests / level))


def statistics(translations: Sequence[str], references: Sequence[str]) -> Statistics:
    """Each sentence's sufficient statistics for cased BLEU with the 13a tokeniser."""
    rows = METRIC._extract_corpus_statistics(list(translations), [list(references)])
    return np.array(rows, dtype=np.int64)


def corpus_bleu(statistics: Statistics) -> float:
    """Corpus BLEU in percent of the sentences whose statistics these are."""
    return _score(statistics.sum(0))


def resampled(statistics: Statistics, samples: int = SAMPLES) -> Float[np.ndarray, " sample"]:
    """BLEU of test sets drawn from the sentences with replacement: always the same draws."""
    sums = draws(len(statistics), samples, SEED) @ statistics.astype(np.float64)
    return np.array([_score(each) for each in sums.astype(np.int64)])


def paired(statistics: Statistics, baseline: Statistics, samples: int = SAMPLES) -> Paired:
    """Paired bootstrap of BLEU (Koehn 2004) as sacrebleu does it; the baseline is subtracted.

    p is 1 where no sample tells the two apart, whatever it is sacrebleu would say. UserError where
    they are not of the same sentences.
    """
    if not np.array_equal(statistics[:, 1], baseline[:, 1]):
        raise UserError("a paired test needs two translations of the same references")
    difference = corpus_bleu(statistics) - corpus_bleu(baseline)
    drawn = resampled(statistics, samples) - resampled(baseline, samples)
    _, low, high = interval(np.append(difference, drawn))
    if not drawn.any():
        return Paired(difference, low, high, 1.0)
    apart = np.abs(drawn)
    # Under the null hypothesis the differences lie around zero: hence less their mean. The ones
    # keep p above zero, whatever the number of samples.
    beyond = int(np.count_nonzero(apart - apart.mean() > abs(difference)))
    return Paired(difference, low, high, (beyond + 1) / (samples + 1))


def increase(
    sums: Float[np.ndarray, " sentence"],
    baseline: Float[np.ndarray, " sentence"],
    tokens: Int[np.ndarray, " sentence"],
) -> Paired:
    """Increase of a loss per token, by paired bootstrap over sentences.

    `sums` are each sentence's loss summed over its tokens. The interval is of 95 %; p is two-sided,
    from the share of resamples on the other side of zero.
    """
    added, counted = sums - baseline, tokens.astype(np.float64)
    drawn = draws(len(tokens), SAMPLES, SEED)
    found = (drawn @ added) / (drawn @ counted)
    value, low, high = interval(np.append(added.sum() / counted.sum(), found))
    beyond = min(np.count_nonzero(found <= 0), np.count_nonzero(found >= 0))
    p = min(1.0, 2 * (beyond + 1) / (SAMPLES + 1))
    return Paired(value, low, high, p)


def _score(sums: Int[np.ndarray, "10"]) -> float:
    return float(METRIC._compute_score_from_stats(sums.tolist()).score)
