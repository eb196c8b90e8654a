"""The streamed ratio, its intervals and halves, and the same sentence by sentence."""

import numpy as np
import torch
from scipy import stats

from headbook.heads.bootstrap import half_of
from headbook.heads.halves import shares
from headbook.heads.measure import RatioSums, counts, sums
from headbook.text.batches import Batch


def sentences(numbers) -> tuple[dict, Batch]:
    numbers = torch.as_tensor(numbers)
    tokens = torch.ones(len(numbers), 1, dtype=torch.long)
    return {}, Batch(tokens, tokens * 0, tokens, numbers)


def given(successes, trials):
    """A measure whose counts are looked up: successes and trials of each sentence."""
    return {"": lambda _, batch: (successes[batch.sentences], trials[batch.sentences])}


def measured(successes, trials, *groups, replicates=200) -> RatioSums:
    return sums(given(successes, trials), map(sentences, groups), replicates)[""]


def bernoulli(chance: float, count: int, seed: int):
    """Token successes in sentences of 1 to 20 tokens: [sentence, 1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    trials = torch.randint(1, 21, (count, 1, 1), generator=generator).double()
    hits = torch.rand(count, 20, generator=generator) < chance
    inside = torch.arange(20) < trials[:, 0]
    return (hits & inside).sum(1).double()[:, None, None], trials


def test_counts_by_sentence_have_the_shares_of_the_sums() -> None:
    generator = torch.Generator().manual_seed(3)
    trials = torch.randint(0, 3, (50, 1, 1, 4), generator=generator).double()
    successes = trials * torch.rand(50, 2, 3, 4, generator=generator).round()
    order = torch.randperm(50, generator=generator)
    groups = list(map(sentences, (order[:20], order[20:])))
    hits, asked = counts(given(successes, trials), groups)[""]
    assert np.array_equal(hits, successes) and np.array_equal(asked, trials)
    streamed = sums(given(successes, trials), groups)[""]
    for half in (None, 0, 1):
        found = shares(hits, asked[:, 0, 0], half)
        np.testing.assert_allclose(found, streamed.replicates(half).numpy())
    np.testing.assert_array_equal(streamed[2].ratio(), streamed.ratio()[..., 2])
    alone = measured(successes, trials, torch.arange(50)[half_of(torch.arange(50)) == 1])
    for ours, theirs in zip(streamed.interval(half=1), alone.interval(), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_interval_is_as_wide_as_scipys_and_wider_at_a_higher_level() -> None:
    successes, trials = bernoulli(0.3, 400, seed=5)
    found = measured(successes, trials, range(400), replicates=1000)
    low, high = found.interval()
    theirs = stats.bootstrap(
        (successes.flatten().numpy(), trials.flatten().numpy()),
        lambda hits, tries, axis: hits.sum(axis) / tries.sum(axis),
        paired=True,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    width = float(high - low)
    assert abs(width / (theirs.high - theirs.low) - 1) < 0.08  # one of 90 % is narrower
    assert abs(float(low) - theirs.low) < 0.2 * width
    assert found.interval(0.99)[0] < low < found.interval(0.5)[0] < found.ratio() < high
