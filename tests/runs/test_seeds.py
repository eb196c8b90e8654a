"""Derived seeds: golden values, because a moved stream would be another training."""

from headbook.runs.seeds import derived


def test_seeds_stay_what_they_were():
    """The first four bytes of SHA-256 of "seed/name", halved: `printf 0/training | sha256sum`."""
    assert derived(0, "training") == 0x5FCA7FC3 >> 1
    assert derived(0, "initial weights") == 262494945
    assert derived(1, "training") == 883808851


def test_seeds_are_distinct_and_in_range():
    drawn = [derived(seed, name) for seed in range(50) for name in ("training", "weights", "a", "")]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= seed < 2**31 for seed in drawn)
