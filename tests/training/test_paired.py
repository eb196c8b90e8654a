"""Paired bootstrap: sacrebleu's own numbers, and what is known beforehand."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from headbook.training.paired import corpus_bleu, paired, resampled, statistics
from headbook.training.scoring import bleu
from headbook.types import UserError

WORDS = ["a dog sees the cat", "the small cat runs", "two men walk and talk", "she reads a book"]
REFERENCES = [f"{one} , and then {other} ." for one in WORDS for other in WORDS]


def garbled(share: float, seed: int) -> list[str]:
    """The references with about this share of their words replaced."""
    noise = np.random.default_rng(seed)
    return [
        " ".join("thing" if noise.random() < share else word for word in line.split())
        for line in REFERENCES
    ]


def of(translations: list[str]) -> np.ndarray:
    return statistics(translations, REFERENCES)


@pytest.mark.parametrize(("share", "seed"), [(0.10, 2), (0.2, 4), (0.6, 5)])
def test_scores_and_test_are_sacrebleus(share: float, seed: int):
    """The other's BLEU less the baseline's, p, and the half-width of the other's interval; of the
    worst, samples without a right n-gram of some order are smoothed."""
    baseline, other = garbled(0.1, 1), [line[:-2] for line in garbled(share, seed)]  # shorter
    assert corpus_bleu(of(other)) == pytest.approx(bleu(other, REFERENCES).score)
    named = [("baseline", baseline), ("other", other)]
    test = PairedTest(named, {"BLEU": BLEU()}, [REFERENCES], test_type="bs", n_samples=1000)
    first, result = test()[1]["BLEU"]
    found = paired(of(other), of(baseline))
    assert found.difference == pytest.approx(result.score - first.score)
    assert found.p == pytest.approx(result.p_value)
    low, high = np.sort(resampled(of(other)))[[25, 974]]
    assert (high - low) / 2 == pytest.approx(result.ci)


def test_what_no_sample_tells_apart_does_not_differ():
    found = paired(of(garbled(0.2, 1)), of(garbled(0.2, 1)))
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)
    with pytest.raises(UserError, match="same references"):
        paired(of(REFERENCES), statistics(REFERENCES[::-1], REFERENCES[::-1]))
