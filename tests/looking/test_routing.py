"""What reaches the next token: a head that copies it is read in full, a masked edge leaves none."""

import numpy as np
import pytest
import torch

from headbook.looking.ours import OurModel
from headbook.looking.routing import (
    ALL,
    CUT,
    MASKED,
    OWN,
    RANDOM,
    SOURCE,
    WHOLE,
    Pairs,
    decoded,
    pairs,
    without_edge,
)
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.types import UserError

SENTENCES, LONG, TYPES, DIM = 20, 30, 6, 8


def test_a_masked_edge_has_no_weight_and_rows_sum_to_one():
    weights = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    for offset in (-1, 1):
        found = without_edge(weights, offset)
        for query in range(5):
            row = weights[:, query].clone()
            if 0 <= query + offset < 5:
                row[:, query + offset] = 0
            torch.testing.assert_close(found[:, query], row / row.sum(-1, keepdim=True))
    # nothing is left over where all weight stood on the edge
    assert not without_edge(torch.ones(2, 2).tril(-1)).any()


def planted() -> Pairs:
    """Head 1 copies a vector of the earlier token, head 2 adds noise to one of the later token."""
    generator = torch.Generator().manual_seed(0)
    count = SENTENCES * LONG
    before, own = (torch.randint(TYPES, (count,), generator=generator) for _ in range(2))
    vectors = torch.randn(TYPES, DIM, generator=generator)
    noise = 0.01 * torch.randn(count, 1, 2, DIM, generator=generator)
    copied = torch.stack([vectors[before], vectors[own]], 1)[:, None] + noise
    masked = torch.stack([vectors[own], vectors[own]], 1)[:, None] + noise
    return Pairs(
        before.numpy(), np.arange(count) // LONG, torch.tensor([0.9, 0.1]).expand(count, 1, 2),
        vectors[before][:, None, None].expand(-1, 1, 2, -1),
        {ALL: copied, MASKED: masked, RANDOM: noise},
        {WHOLE: copied[:, 0, 0], CUT: masked[:, 0, 0], "id": own},
    )  # fmt: skip


@pytest.fixture
def found():
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(9, 9, 1, 0, width=2 * DIM, feed_forward=8, heads=2))
    return decoded(network, planted(), SENTENCES, TYPES)


def test_a_copied_token_is_found_and_with_its_edge_masked_it_is_not(found):
    chance = 2 / TYPES
    for reading in (found.probed, found.nearest):
        hits = {name: each.mean() for name, each in reading.items()}
        assert hits[SOURCE] == hits[ALL] == 1 and hits[MASKED] < chance
    every = found.every.mean(0)
    assert every.shape == (1, 2) and every[0, 0] == 1 and every[0, 1] < chance
    assert found.probed[RANDOM].mean() < chance
    assert found.states[WHOLE].mean() == 1 and found.states[CUT].mean() < chance
    assert found.states[OWN].mean() < chance and found.majority.mean() < chance
    assert found.head == (0, 0) and found.types == TYPES


def test_tokens_that_were_never_seen_are_not_counted():
    few = planted()
    few.previous[few.sentence >= SENTENCES - SENTENCES // 4] = TYPES + 1
    few.previous[-1] = 0
    torch.manual_seed(0)
    network = Transformer(TransformerConfig(9, 9, 1, 0, width=2 * DIM, feed_forward=8, heads=2))
    hits = decoded(network, few, SENTENCES, TYPES).nearest[ALL]
    assert np.isfinite(hits).sum() == 1


def test_pairs_of_a_model_have_its_own_contexts(ours: OurModel, sample):
    sentences = [each for each in sample.sentences if len(each.split()) > 5][:3]
    own = pairs(ours, sentences)
    weights = own.weight
    assert own.contexts[ALL].shape == own.values.shape == (len(own.previous), 2, 2, 8)
    assert (weights > 0).all() and set(own.sentence) == {0, 1, 2}
    # context = weight · value of the earlier token + (1 − weight) · the rest
    rest = weights[..., None] * own.values + (1 - weights[..., None]) * own.contexts[MASKED]
    torch.testing.assert_close(own.contexts[ALL], rest, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(own.states[WHOLE], own.states[CUT])
    assert not any(block.edits for _, _, block in ours.network.attentions())


def test_sentences_without_neighbours_are_refused(ours: OurModel):
    with pytest.raises(UserError, match="two tokens"):
        pairs(ours, [])
