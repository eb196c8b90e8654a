"""Distances of heads across layers: known answers, a plain form, layers as planted."""

from collections.abc import Callable
from math import log2

import numpy as np
import pytest
import torch

from headbook.corpora.batches import EOS, Batch, collate
from headbook.heads.head_distance import (
    HeadDivergence,
    OffsetProfile,
    contrasts,
    divergences,
    matched_contrasts,
    nearest_in_layer,
    permuted_contrasts,
)
from headbook.heads.random_head import random_heads
from headbook.models.capture import Point
from headbook.types import Kind

ENCODER = Kind.ENCODER


def batch_of(*lengths: int) -> Batch:
    """Sentences of so many tokens, EOS among them."""
    pairs = [([*range(5, 4 + length), EOS], [EOS]) for length in lengths]
    return collate(pairs, range(len(pairs)))


LAYERS = np.array([0, 0, 0, 1, 1, 1])


def plain(one: list[float], other: list[float]) -> float:
    """Jensen-Shannon divergence in bits, term by term."""
    total = 0.0
    for p, q in zip(one, other, strict=True):
        for each in (p, q):
            total += each * log2(2 * each / (p + q)) / 2 if each else 0
    return total


@pytest.mark.parametrize("measure", [HeadDivergence, OffsetProfile])
def test_batching_and_padding_change_nothing(measure: Callable) -> None:
    batch = batch_of(7, 3, 5)
    found = []
    for parts in ([batch], [batch.select(slice(at, at + 1)) for at in range(len(batch))]):
        each = measure(ENCODER, replicates=0)
        for part in parts:
            length = int(part.source_mask.sum(1).max())
            weights = [every[:, :, :length, :length] for every in
                       random_heads(part, ENCODER, 2, 3)[ENCODER, Point.WEIGHTS]]  # fmt: skip
            cut = Batch(part.source[:, :length], part.target_in, part.target_out, part.sentences)
            each.update({(ENCODER, Point.WEIGHTS): weights}, cut)
        found.append(each.compute())
    torch.testing.assert_close(*found)


def test_divergence_is_the_formula_at_every_query() -> None:
    batch = batch_of(4)
    tape = random_heads(batch, ENCODER, 2, 2)
    measure = HeadDivergence(ENCODER, replicates=0)
    measure.update(tape, batch)
    maps = torch.cat(tape[ENCODER, Point.WEIGHTS], dim=1)[0].double()
    expected = np.array([[np.mean([plain(*rows) for rows in zip(one.tolist(), other.tolist(),
                                                              strict=True)])
                          for other in maps] for one in maps])  # fmt: skip
    np.testing.assert_allclose(measure.compute().numpy(), expected, atol=1e-7)


def test_a_head_at_an_offset_has_that_profile_and_the_last_key_is_special() -> None:
    batch = batch_of(6)
    length = batch.source.shape[1]
    following = torch.diag(torch.ones(length - 1), 1)
    following[-1, -1] = 1
    measure = OffsetProfile(ENCODER)
    measure.update({(ENCODER, Point.WEIGHTS): [following[None, None]]}, batch)
    profile = measure.compute()[0]
    expected = torch.zeros(14, dtype=torch.float64)
    expected[7] = (length - 2) / length  # offset 1
    expected[13] = 2 / length  # the end of the sentence, from the last word and from itself
    torch.testing.assert_close(profile, expected)


def test_rows_without_a_common_place_are_one_bit_apart() -> None:
    found = divergences(np.array([[1.0, 0, 0], [0, 0.5, 0.5], [1.0, 0, 0]]))
    np.testing.assert_allclose(found, [[0, 1, 0], [1, 0, 1], [0, 1, 0]], atol=1e-12)


def test_planted_layers_are_found_and_permuted_ones_are_not() -> None:
    distances = np.where(LAYERS[:, None] == LAYERS, 0.2, 0.7) * (1 - np.eye(6))
    np.testing.assert_allclose(contrasts(distances, LAYERS), 0.5)
    assert nearest_in_layer(distances, LAYERS).all()
    permuted = permuted_contrasts(distances, LAYERS, 400, seed=0)
    assert abs(permuted.mean()) < 0.02 and permuted.max() <= 0.5 + 1e-12


def test_likeness_that_is_of_offsets_alone_is_matched_away() -> None:
    rng = np.random.default_rng(0)
    layers = np.repeat(np.arange(4), 6)
    place = np.concatenate([rng.normal(layer, 2, 6) for layer in range(4)])
    profiles = np.abs(place[:, None] - place)
    assert contrasts(profiles, layers).mean() > 0.3
    assert abs(matched_contrasts(profiles, profiles, layers).mean()) < 0.1
    beyond = profiles + 0.5 * (layers[:, None] != layers)
    assert matched_contrasts(beyond, profiles, layers).mean() == pytest.approx(0.5, abs=0.1)
