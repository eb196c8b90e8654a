"""The learning rate against values worked out by hand."""

from itertools import pairwise

import pytest

from headbook.training.schedule import learning_rate


def test_the_peak_is_at_the_end_of_the_warm_up():
    rates = [learning_rate(update, 512, 4.0, 100) for update in range(1, 400)]
    assert max(rates) == rates[99]
    assert all(earlier < later for earlier, later in pairwise(rates[:100]))
    assert all(earlier > later for earlier, later in pairwise(rates[99:]))


def test_the_papers_constants_peak_at_the_rate_of_its_repository():
    # 4 / sqrt(512) / sqrt(16000) = 4 / sqrt(8192000) = 0.0013975...
    assert learning_rate(16_000, 512, 4.0, 16_000) == pytest.approx(1.3975e-3, rel=1e-4)
    assert learning_rate(1, 512, 4.0, 16_000) == pytest.approx(1.3975e-3 / 16_000, rel=1e-4)
    assert learning_rate(64_000, 512, 4.0, 16_000) == pytest.approx(1.3975e-3 / 2, rel=1e-4)
