"""Noise in planted heads: as much as was asked for, drawn evenly, and the same in any batch."""

import known_heads as planted
import pytest
import torch

from headbook.heads.confidence import Confidence
from headbook.heads.positional import PositionalShare
from headbook.heads.rare import RareShare
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.types import Kind

SHARES = (0.0, 0.1, 0.25, 0.5)


def long_batch(ladder):
    """Four sentences of 33 tokens and four of 129."""
    return ladder.batch(list(range(12, 20)))


def test_no_noise_changes_nothing(ladder) -> None:
    batch = long_batch(ladder)
    clean = planted.uniform(batch)
    assert torch.equal(planted.with_noise(batch, clean, 0.0), clean)


def test_weights_stay_attention_and_the_clean_head_stays(ladder) -> None:
    batch = ladder.batch(list(range(20)), extra=2)
    clean = planted.at_offset(batch, -1)
    kept = clean.clone()
    noisy = planted.with_noise(batch, clean, 0.5)
    assert torch.equal(clean, kept) and torch.equal(noisy.sum(-1), torch.ones_like(noisy[..., 0]))
    # padding is as it was, and nobody is sent to EOS or padding
    padding = ~batch.source_mask
    assert torch.equal(noisy[padding], clean[padding])
    hit = (noisy != clean).any(-1)
    words = batch.source_mask & ~batch.source_boundary
    assert (noisy[hit] * ~words[:, None].expand_as(noisy)[hit]).sum() == 0


@pytest.mark.parametrize("share", SHARES[1:])
def test_the_share_of_queries_is_hit_and_keys_are_even(ladder, share) -> None:
    batch = ladder.batch([16, 17, 18, 19])
    drawn = [planted.with_noise(batch, planted.at_eos(batch), share, seed) for seed in range(40)]
    away = torch.stack(drawn)[:, :, :, :129]
    queries = 40 * 4 * 130
    hit = float(away.sum()) / queries
    assert abs(hit - share) < 4 * (share * (1 - share) / queries) ** 0.5
    expected = queries * share / 129
    chi_squared = ((away.sum((0, 1, 2)) - expected) ** 2 / expected).sum()
    assert chi_squared < 129 + 5 * (2 * 129) ** 0.5


def test_more_noise_hits_the_same_queries_and_more(ladder) -> None:
    batch = long_batch(ladder)
    clean = planted.at_eos(batch)
    some, more = (planted.with_noise(batch, clean, share) for share in (0.1, 0.5))
    hit = (some != clean).any(-1)
    assert hit.any() and torch.equal(some[hit], more[hit])
    assert ((more != clean).any(-1) & ~hit).any()


def test_draws_hang_on_seed_and_sentence_alone(ladder) -> None:
    one, several = ladder.batch([13]), ladder.batch([2, 13], extra=3)
    alone = planted.with_noise(one, planted.at_offset(one, 1), 0.5)[0]
    among = planted.with_noise(several, planted.at_offset(several, 1), 0.5)[1]
    assert torch.equal(alone, among[: len(alone), : len(alone)])
    other = planted.with_noise(one, planted.at_offset(one, 1), 0.5, seed=1)[0]
    assert not torch.equal(alone, other)


@pytest.mark.parametrize("share", SHARES)
def test_every_function_is_found_in_its_share(ladder, ranks, share) -> None:
    """Of n tokens a noisy query hits the right one once: (1 - share) + share / n."""
    batch, seeds = ladder.batch([16, 17, 18, 19]), range(10)
    expected = 1 - share + share / 129
    spread = 4 * (expected * (1 - expected) / (10 * 4 * 128)) ** 0.5 + 1e-9
    places = {0: (0, 5), 1: (-1, 4), 2: (1, 6), 3: (2, 7), 4: (-2, 3)}
    found, rarest = torch.zeros(5).double(), 0.0
    for seed in seeds:
        heads = [planted.at_offset(batch, offset) for offset, _ in places.values()]
        heads.append(planted.at_rarest(batch, ranks))
        tape = planted.recording([planted.with_noise(batch, each, share, seed) for each in heads])
        position, rare = PositionalShare(Kind.ENCODER), RareShare(ranks)
        position.update(tape, batch)
        rare.update(tape, batch)
        found += torch.stack([position.compute()[0, h, at] for h, (_, at) in places.items()]) / 10
        rarest += float(rare.compute()[0, 5, 0]) / 10
    assert (found - expected).abs().max() <= spread and abs(rarest - expected) <= spread


@pytest.mark.parametrize("share", SHARES)
def test_noise_makes_a_uniform_head_confident_in_its_share(ladder, share) -> None:
    batch = ladder.batch([16, 17, 18, 19])
    measure = Confidence(Kind.ENCODER)
    for seed in range(10):
        head = planted.with_noise(batch, planted.uniform(batch), share, seed)
        measure.update(planted.recording([head]), batch)
    expected = (1 - share) / 130 + share
    spread = 4 * (share * (1 - share) / (10 * 4 * 129)) ** 0.5
    assert abs(float(measure.compute()) - expected) <= spread + 1e-6


def test_noise_takes_a_relation_away_from_half_of_the_words(corpus) -> None:
    batch = corpus.batch(list(range(60)))
    clean = planted.at_partner(batch, corpus.trees, 2)
    measure = SyntacticAccuracy(corpus.trees)
    heads = [planted.with_noise(batch, clean, share) for share in SHARES]
    measure.update(planted.recording(heads), batch)
    reached = measure.compute()[0, :, 2]
    assert reached[0] == 1 and (reached.diff() < 0).all() and 0.1 < reached[-1] < 0.7
