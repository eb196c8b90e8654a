"""The bootstrap's weights: the hash, their distribution, their independence."""

import torch

from headbook.heads.bootstrap import half_of, mixed, poisson_weights


def test_the_hash_is_splitmix64() -> None:
    """The values that the published generator is known by, from its states 0 and 1234567."""
    unsigned = [value & ((1 << 64) - 1) for value in mixed(torch.tensor([0, 1234567])).tolist()]
    assert unsigned == [0xE220A8397B1DCDAF, 6457827717110365317]


def test_first_column_is_the_plain_sum_and_the_rest_hang_on_the_sentence_alone() -> None:
    sentences = torch.tensor([7, 3, 900])
    weights = poisson_weights(sentences, 10)
    assert (weights[:, 0] == 1).all()
    assert torch.equal(poisson_weights(sentences.flip(0), 10), weights.flip(0))
    assert torch.equal(poisson_weights(sentences[1:2], 25)[:, :11], weights[1:2])


def test_halves_are_even_and_unrelated_to_the_weights() -> None:
    halves = half_of(torch.arange(20_000))
    weights = poisson_weights(torch.arange(20_000), 1)[:, 1]
    assert set(halves.tolist()) == {0, 1} and abs(float(halves.double().mean()) - 0.5) < 0.02
    assert abs(float(weights[halves == 0].mean() - weights[halves == 1].mean())) < 0.05
    assert torch.equal(half_of(torch.tensor([5])), halves[5:6])
