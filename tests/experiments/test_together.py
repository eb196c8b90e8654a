"""Heads held, and composition: written out, planted, and at chance."""

import numpy as np
import pandas as pd
import pytest
import torch
from blocks import drawn

import headbook as hb
from headbook.experiments import composing, together

LAYERS = np.repeat(range(3), 4)
WIDTH, DIM = 16, 4


def test_with_nothing_above_there_is_nothing_to_hold() -> None:
    model = hb.load("mixture-fr-256-masked")
    every = together.heads(model)
    chosen = [every[0], every[-1]]
    batches = model.batches(["The cat sat on the mat .", "Heads , heads ."], None, 8)
    ways = [lambda name=head.label: hb.close(model, name) for head in chosen]
    free, fixed = together.effects(model, batches, ways), together.held(model, batches, chosen)
    assert len(batches) == 2 and torch.equal(fixed.sentences, free.sentences)
    torch.testing.assert_close(fixed.added[1], free.added[1], rtol=1e-3, atol=1e-6)
    assert not torch.allclose(fixed.added[0], free.added[0], rtol=1e-2)
    assert not any(block.edits for _, _, block in model.network.attentions())


@pytest.mark.parametrize("before", [True, False])
def test_scores_are_those_of_full_matrices(before: bool) -> None:
    weights = [drawn(3, 2, WIDTH, DIM, seed=seed) for seed in range(4)]
    gains = drawn(3, 2, WIDTH, seed=4).abs()
    found = composing.composition(weights, gains, before)
    centring = torch.eye(WIDTH, dtype=torch.float64) - 1 / WIDTH
    for low, a, up, b in ((0, 0, 1, 1), (0, 1, 2, 0), (1, 0, 2, 1)):
        out = weights[2][low, a] @ weights[3][low, a].T
        between = [gain for layer in range(low, up) for gain in gains[layer]]
        for gain in [gains[up, 0]] if before else between:
            out = out @ centring @ gain.diag()
        q, k, v, o = (each[up, b] for each in weights)
        for at, reader in enumerate((q @ k.T, k @ q.T, v @ o.T)):
            score = (out @ reader).norm() / (out.norm() * reader.norm())
            torch.testing.assert_close(found[at, low, a, up, b], score)
    assert int(found.isfinite().sum()) == 3 * 3 * 4


@pytest.mark.parametrize("beyond", [True, False])
def test_composition_that_goes_with_interactions_is_told_from_shared_layers(beyond: bool) -> None:
    """Both grow with the effects of lower layers; one also with the other's own part, or not."""
    random, pairs = np.random.default_rng(0), np.argwhere(LAYERS[:, None] < LAYERS)
    own, alone = random.random(len(pairs)), 10.0 ** -LAYERS[pairs[:, 0]]
    size = 5 * alone + beyond * own + 0.1**beyond * random.random(len(pairs))
    size *= random.choice([-1, 1], len(pairs))
    table = pd.DataFrame({"composition": 1 + alone + own, "interaction": size, "alone": alone})
    plain, apart = composing.agreement(LAYERS, pairs, table).T
    assert np.nanquantile(plain, 0.025) > 0.2
    assert (np.nanquantile(apart, 0.025) > 0) == beyond
