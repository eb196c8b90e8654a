"""Memories that recall: known answers, the sum and the softmax by loops, and the rank's bound."""

import math

import pytest
import torch
from blocks import drawn

from headbook.corpora.recall import Recall, each_once, repeated
from headbook.experiments.recall import Recaller, Setting, feature_map, score, train
from headbook.models.fast_weights import delta_weights


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def recaller(**setting: object) -> Recaller:
    torch.manual_seed(0)
    return Recaller(Setting(**{"keys": 6, "width": 4, **setting})).double()


def test_the_value_of_a_repeated_key_is_its_last_by_loops() -> None:
    given = repeated(4, 9, 20, generator())
    for keys, last in zip(given.keys.tolist(), given.last.tolist(), strict=True):
        assert last == [max((at for at in range(9) if keys[at] == key), default=-1)
                        for key in range(4)]  # fmt: skip


def test_the_loss_by_its_formula() -> None:
    """Values are one-hot: what is read lacks as much as its weights lack of the right one."""
    model, drawn = recaller(rule="softmax"), each_once(6, 1, generator())
    own = model.embedding[drawn.keys[0]]
    query, key = model.query(own), model.key_of_key(own) + model.key_of_value[drawn.values[0]]
    lacking = (query @ key.T / 2).softmax(-1) - torch.eye(6)
    wanted = lacking.square().sum(-1) / 2
    torch.testing.assert_close(model(drawn, drawn.keys)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [1, 2, 33])
def test_weights_of_the_delta_rule_are_those_of_its_memory_step_by_step(length: int) -> None:
    queries, keys = drawn(length, 5).abs(), drawn(length, 5, seed=1).abs()
    values, strengths = drawn(length, 4, seed=2), drawn(length, seed=3).sigmoid()
    memory = torch.zeros(4, 5).double()
    for at, key in enumerate(keys / keys.sum(-1, keepdim=True)):
        memory = memory + strengths[at] * (values[at] - memory @ key)[:, None] * key
    wanted = queries / queries.sum(-1, keepdim=True) @ memory.T
    torch.testing.assert_close(delta_weights(queries, keys, strengths) @ values, wanted)


def test_with_split_values_each_head_gives_its_slice_alone() -> None:
    """The second of two heads is silent: its three values cost a half, as an answer of zero."""
    model, drawn = recaller(heads=2, split="features and values"), each_once(6, 3, generator())
    with torch.no_grad():
        model.gains[:] = 0.0
        model.gains[0] = 1.0
    loss, theirs = model(drawn, drawn.keys), drawn.values >= 3
    assert (loss[theirs] > 0.5).all()  # what the first head gives is wrong there
    with torch.no_grad():
        model.gains[0] = 0.0
    torch.testing.assert_close(model(drawn, drawn.keys), torch.full_like(loss, 0.5))


def test_random_features_change_from_pass_to_pass_unless_drawn_once() -> None:
    keys, noise = torch.randn(3, 8, generator=generator()), generator()
    for name, same in (("FAVOR+ 4, scaled", False), ("FAVOR+ 4, once", True)):
        first, second = (feature_map(name, 8, noise)(keys) for _ in range(2))
        assert torch.equal(first, second) is same


def test_a_key_that_does_not_occur_is_not_counted() -> None:
    model = Recaller(Setting(keys=3, width=4, setting="again"))
    model.forward = lambda drawn, queries: queries.float()  # the loss of key k is k
    drawn = Recall(torch.tensor([[0, 1]]), torch.tensor([[1, 2]]), torch.tensor([[0, 1, -1]]))
    assert score(model, drawn) == 0.5


@pytest.mark.slow
def test_a_memory_learns_what_fits_and_nan_ends_a_training() -> None:
    found = train(Setting("softmax", "softmax", keys=4, width=8))
    assert found["best"] <= 1e-3 < found["untrained"] and found["steps"] % 100 == 0
    found = train(Setting("FAVOR+ 4", "delta rule", setting="again", keys=400))
    assert math.isnan(found["loss"]) and found["steps"] == 1
