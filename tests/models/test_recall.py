"""Memories that recall: known answers, rules by the slow forms, and what a fault would change."""

import pytest
import torch

from headbook.artefacts.recall import RecallRun, score, start
from headbook.corpora.recall import Recall, each_once, repeated
from headbook.models.fast_weights import delta_weights
from headbook.models.recall import Memory, Recaller, Rule, Split, feature_map
from headbook.types import UserError


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def recaller(memory: Memory, count: int = 6) -> Recaller:
    torch.manual_seed(0)
    return Recaller(count, memory, generator())


def test_every_key_and_value_stands_once_and_the_last_place_is_its_place():
    drawn = each_once(7, 5, generator())
    for ids in (drawn.keys, drawn.values):
        torch.testing.assert_close(ids.sort(1).values, torch.arange(7).expand(5, -1))
    queries = torch.arange(7).expand(5, -1)
    torch.testing.assert_close(drawn.keys.gather(1, drawn.last), queries)
    torch.testing.assert_close(drawn.wanted(drawn.keys), drawn.values)


def test_the_value_of_a_repeated_key_is_its_last_by_loops():
    drawn = repeated(4, 9, 20, generator())
    for row in range(20):
        for key in range(4):
            places = [at for at in range(9) if drawn.keys[row, at] == key]
            assert drawn.last[row, key] == (places[-1] if places else -1)
    assert (drawn.last < 0).any() and not drawn.keys.equal(drawn.keys.sort(1).values)


def delta_memory(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, strengths: torch.Tensor
) -> torch.Tensor:
    """W_i = W_{i−1} (I − β φ φᵀ) + β v φᵀ, multiplied out, read by the query of each position."""
    queries, keys = (each / each.sum(-1, keepdim=True) for each in (queries, keys))
    memory, read = torch.zeros(*values.shape[:-2], values.shape[-1], keys.shape[-1]).double(), []
    for at in range(keys.shape[-2]):
        key, strength = keys[..., at, :, None], strengths[..., at, None, None]
        memory = memory - strength * (memory @ key) @ key.mT
        memory = memory + strength * values[..., at, :, None] @ key.mT
        read.append((memory @ queries[..., at, :, None])[..., 0])
    return torch.stack(read, -2)


@pytest.mark.parametrize("length", [1, 2, 9, 33, 129])
def test_weights_of_the_delta_rule_are_those_of_its_memory(length):
    queries, keys = (torch.rand(2, 3, length, 5, generator=generator(s), dtype=torch.float64)
                     for s in (0, 1))  # fmt: skip
    values = torch.randn(2, 3, length, 4, generator=generator(2), dtype=torch.float64)
    strengths = torch.rand(2, 3, length, generator=generator(3), dtype=torch.float64)
    found = delta_weights(queries, keys, strengths) @ values
    wanted = delta_memory(queries, keys, values, strengths)
    # the memory is read behind every write; the weights are those behind the last one
    torch.testing.assert_close(found[..., -1, :], wanted[..., -1, :])
    first = delta_weights(queries[..., :1, :], keys[..., :1, :], strengths[..., :1])
    torch.testing.assert_close(first @ values[..., :1, :], wanted[..., :1, :])


def test_one_hot_keys_are_recalled_and_as_many_as_there_are_features():
    """Keys that do not meet: half of them without a place in the memory cost ½ each."""
    count, kept = 6, 3
    drawn = each_once(count, 4, generator())
    model = recaller(Memory(Rule.DELTA, "ELU + 1"), count)
    keys = torch.eye(count)
    keys[kept:] = 0

    def weights(keys_, values, queries):
        return (keys[queries] @ keys[keys_].mT)[:, None]

    model.weights = weights
    assert score(model, drawn) == pytest.approx((1 - kept / count) / 2)


def test_no_memory_of_so_many_features_is_better_than_the_bound():
    """The weights of all queries have at most as high a rank, whatever the keys are."""
    for memory in (Memory(dim=4), Memory(map="DPFP-1", dim=4), Memory(dim=4, heads=2)):
        drawn = each_once(20, 3, generator())
        model = recaller(memory, 20).double()
        queries = torch.arange(20).expand(3, -1)
        read = model(drawn.keys, drawn.values, queries)
        assert max(torch.linalg.matrix_rank(read).tolist()) <= memory.features
        assert score(model, drawn) >= (1 - memory.features / 20) / 2


def test_the_sum_and_the_softmax_by_loops():
    drawn = repeated(6, 5, 2, generator())
    queries = torch.tensor([[0, 3], [5, 1]])
    for memory in (Memory(rule=Rule.SOFTMAX, dim=4), Memory(dim=4)):
        model = recaller(memory).double()
        read = model(drawn.keys, drawn.values, queries)
        for row in range(2):
            for at, query in enumerate(queries[row]):
                q = model.query(model.embedding[query])
                scores = []
                for key, value in zip(drawn.keys[row], drawn.values[row], strict=True):
                    k = model.key_of_key(model.embedding[key]) + model.key_of_value[value]
                    if memory.rule is Rule.SOFTMAX:
                        scores.append((q @ k / 2).exp())
                    else:
                        scores.append((torch.nn.functional.elu(q) + 1)
                                      @ (torch.nn.functional.elu(k) + 1))  # fmt: skip
                wanted = torch.zeros(6, dtype=torch.float64)
                for score_, value in zip(scores, drawn.values[row], strict=True):
                    wanted[value] += score_ / sum(scores)
                torch.testing.assert_close(read[row, at], wanted, rtol=1e-4, atol=1e-4)


def test_heads_share_features_and_with_split_values_each_gives_its_slice_alone():
    whole = recaller(Memory(dim=8, heads=2))
    drawn = each_once(6, 3, generator())
    assert whole.weights(drawn.keys, drawn.values, drawn.keys).shape == (3, 2, 6, 6)
    split = recaller(Memory(dim=8, heads=2, split=Split.VALUES))
    with torch.no_grad():
        split.gains[1] = 0.0  # the second head gives nothing
    read = split(drawn.keys, drawn.values, drawn.keys)
    assert not read[..., 3:].any() and read[..., :3].all()


def test_random_features_change_from_pass_to_pass_unless_drawn_once():
    keys = torch.randn(3, 8, generator=generator())
    for name, same in (("FAVOR+ 4, scaled", False), ("FAVOR+ 4, once", True)):
        drawn, numbers = feature_map(name, 8), generator()
        first, second = (drawn(numbers)(keys) for _ in range(2))
        assert first.shape == (3, 8) and torch.equal(first, second) is same
    assert Memory(map="FAVOR+ 4", dim=8).features == 8


def test_what_is_no_memory_is_refused():
    for name in ("cosine", "DPFP-x", "FAVOR+ 64, twice", "FAVOR+"):
        with pytest.raises(UserError, match="unknown feature map"):
            Memory(map=name)
    with pytest.raises(UserError, match="cannot be divided among 3 heads"):
        Memory(heads=3)


def test_a_key_that_does_not_occur_is_not_counted():
    model = start(RecallRun(Memory(dim=4), 3, again=True))
    model.forward = lambda keys, values, queries: torch.zeros(*queries.shape, 3)
    drawn = Recall(torch.tensor([[0, 0]]), torch.tensor([[1, 2]]), torch.tensor([[1, -1, -1]]))
    assert score(model, drawn) == 0.5
