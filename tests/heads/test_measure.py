"""The streaming ratio, its intervals, the halves and the choice of the best."""

import numpy as np
import pytest
import torch
from scipy import stats

from headbook.heads.bootstrap import half_of
from headbook.heads.measure import (
    HeadMeasure,
    RatioSums,
    Selection,
    best_head,
    best_of,
)
from headbook.text.batches import Batch
from headbook.types import Kind, UserError


class Given(HeadMeasure):
    """A measure whose contributions are looked up: successes and trials of each sentence."""

    def __init__(self, successes, trials, replicates=200):
        super().__init__(Kind.ENCODER, replicates)
        self.successes, self.trials = successes, trials

    def contributions(self, tape, batch):
        return self.successes[batch.sentences], self.trials[batch.sentences]


def sentences(numbers) -> Batch:
    numbers = torch.as_tensor(numbers)
    tokens = torch.ones(len(numbers), 1, dtype=torch.long)
    return Batch(tokens, tokens * 0, tokens, numbers)


def measured(measure, *batches):
    for numbers in batches:
        measure.update({}, sentences(numbers))
    return measure


def bernoulli(chance: float, count: int, seed: int):
    """Token successes in sentences of 1 to 20 tokens: [sentence, 1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    trials = torch.randint(1, 21, (count, 1, 1), generator=generator).double()
    hits = torch.rand(count, 20, generator=generator) < chance
    inside = torch.arange(20) < trials[:, 0]
    return (hits & inside).sum(1).double()[:, None, None], trials


def test_ratio_is_of_sums_not_a_mean_of_ratios() -> None:
    successes = torch.tensor([1.0, 0.0]).double()[:, None, None]
    trials = torch.tensor([1.0, 3.0]).double()[:, None, None]
    assert measured(Given(successes, trials), [0, 1]).compute().item() == 0.25


def test_splitting_and_permuting_sentences_changes_nothing() -> None:
    successes, trials = bernoulli(0.3, 40, seed=0)
    whole = measured(Given(successes, trials), range(40)).sums()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    split = measured(Given(successes, trials), order[:1], order[1:17], order[17:]).sums()
    # integers below 2^53: not close but equal
    assert torch.equal(whole.numerator, split.numerator)
    assert torch.equal(whole.denominator, split.denominator)


def test_memory_is_flat_in_sentences() -> None:
    successes, trials = bernoulli(0.3, 2000, seed=0)
    few, many = (Given(successes, trials) for _ in range(2))
    measured(few, range(10))
    measured(many, *[range(start, start + 100) for start in range(0, 2000, 100)])
    sizes = [
        {name: value.numel() for name, value in each.metric_state.items()} for each in (few, many)
    ]
    assert sizes[0] == sizes[1] == {"numerator": 402, "denominator": 402}


def test_two_metrics_reduced_equal_one() -> None:
    successes, trials = bernoulli(0.3, 60, seed=2)
    one = measured(Given(successes, trials), range(60))
    left, right = measured(Given(successes, trials), range(25)), Given(successes, trials)
    measured(right, range(25, 60))
    left.merge_state(right)
    assert torch.equal(left.compute(), one.compute())
    for mine, theirs in zip(left.interval(), one.interval(), strict=True):
        assert torch.equal(mine, theirs)
    # the reduction that torchmetrics makes across processes: a stack, then `dist_reduce_fx`
    parts = torch.stack([right.numerator, measured(Given(successes, trials), range(25)).numerator])
    assert torch.equal(right._reductions["numerator"](parts), one.numerator)


def test_halves_part_the_sentences() -> None:
    successes, trials = bernoulli(0.3, 50, seed=3)
    measure = measured(Given(successes, trials), range(50))
    halves = half_of(torch.arange(50))
    for half in (0, 1):
        mine = halves == half
        expected = successes[mine].sum() / trials[mine].sum()
        assert torch.allclose(measure.sums().ratio(half), expected)
        alone = measured(Given(successes, trials), torch.arange(50)[mine])
        for ours, theirs in zip(measure.sums().interval(half=half), alone.interval(), strict=True):
            assert torch.equal(ours, theirs)


def test_interval_covers_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(200):
        successes, trials = bernoulli(0.3, 150, seed)
        low, high = measured(Given(successes, trials), range(150)).interval(0.9)
        covered += int(low.item() <= 0.3 <= high.item())
    assert 0.82 <= covered / 200 <= 0.96


def test_interval_is_as_wide_as_scipys() -> None:
    successes, trials = bernoulli(0.3, 400, seed=5)
    low, high = measured(Given(successes, trials, replicates=1000), range(400)).interval()
    theirs = stats.bootstrap(
        (successes.flatten().numpy(), trials.flatten().numpy()),
        lambda hits, tries, axis: hits.sum(axis) / tries.sum(axis),
        paired=True,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(0),
    ).confidence_interval
    width = float(high - low)
    assert abs(width / (theirs.high - theirs.low) - 1) < 0.15
    assert abs(float(low) - theirs.low) < 0.2 * width


def test_level_widens_the_interval() -> None:
    successes, trials = bernoulli(0.3, 100, seed=6)
    measure = measured(Given(successes, trials), range(100))
    (low, high), (lower, higher) = measure.interval(0.5), measure.interval(0.99)
    assert lower < low < measure.compute() < high < higher


def test_nothing_counted_is_nan_and_not_zero() -> None:
    none = torch.zeros(4, 1, 2).double()
    some = none + torch.tensor([0.0, 1.0])
    measure = measured(Given(none, some), range(4))
    assert measure.compute()[0, 0].isnan() and measure.compute()[0, 1] == 0
    assert measure.interval()[0][0, 0].isnan()


def test_unmeasured_and_unreplicated_say_so() -> None:
    successes, trials = bernoulli(0.3, 4, seed=7)
    with pytest.raises(UserError, match="no batch"):
        Given(successes, trials).interval()
    with pytest.raises(UserError, match="replicates"):
        measured(Given(successes, trials, replicates=0), range(4)).interval()


def test_measured_in_and_out_of_inference_mode_add_up() -> None:
    successes, trials = bernoulli(0.3, 20, seed=8)
    measure = Given(successes, trials)
    with torch.inference_mode():
        measured(measure, range(10))
    measured(measure, range(10, 20))
    assert torch.allclose(measure.compute(), successes.sum() / trials.sum())


def rigged() -> HeadMeasure:
    """Two layers of two heads, two cells. In cell 0 head (0, 1) shines on half 0 only and head
    (1, 0) is good everywhere; in cell 1 nothing ever counts."""
    halves = half_of(torch.arange(40)).double()
    successes = torch.zeros(40, 2, 2, 2).double()
    successes[:, 0, 1, 0] = 1 - halves
    successes[:, 1, 0, 0] = 0.8
    trials = torch.zeros(40, 1, 1, 2).double()
    trials[..., 0] = 1
    return measured(Given(successes, trials), range(40))


def test_best_head_is_chosen_on_one_half_and_scored_on_the_other() -> None:
    best = best_head(rigged().sums())
    assert (best.layer[0], best.head[0]) == (0, 1)
    assert best.chosen[0] == 1 and best.score[0] == 0 == best.high[0]


def test_best_head_on_everything_finds_the_steady_one() -> None:
    best = best_head(rigged().sums(), Selection.EVERYTHING)
    assert (best.layer[0], best.head[0]) == (1, 0)
    assert torch.allclose(best.chosen[0], best.score[0])
    assert abs(float(best.low[0]) - 0.8) < 1e-9 > abs(float(best.high[0]) - 0.8)


def test_best_of_nothing_is_nobody() -> None:
    best = best_head(rigged().sums())
    assert best.layer[1] == best.head[1] == -1 and best.score[1].isnan()


def test_best_along_another_axis() -> None:
    best = best_of(rigged().sums(), lambda values: values.movedim(-1, 0), Selection.EVERYTHING)
    assert best.index.shape == (2, 2) and (best.index == 0).all()


def test_ratio_sums_broadcast_a_denominator_shared_by_heads() -> None:
    hits, tokens = torch.ones(3, 2, 4).double(), torch.full((3, 1, 1), 2.0).double()
    sums = RatioSums.over(hits, tokens, torch.arange(3), replicates=5)
    assert sums.numerator.shape == (2, 6, 2, 4) and sums.denominator.shape == (2, 6, 1, 1)
    assert torch.equal(sums.ratio(), torch.full((2, 4), 0.5).double())
