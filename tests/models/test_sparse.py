"""Attention in blocks against a dense mask, and by the memory that it takes; linear attention."""

import pytest
import torch
from blocks import HEADS, WIDTH, attention, in_heads, joined, rows_of

from headbook.experiments.costs import peak_bytes
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.sparse import Pattern, Sparse, pairs

PATTERNS = (
    Pattern(1, window=True),
    Pattern(3, window=True, step=3),
    Pattern(4, window=True, tokens=3),
    Pattern(4, tokens=2, drawn=2),
    Pattern(3, tokens=5, drawn=40),
)


def dense(pattern: Pattern, length: int) -> torch.Tensor:
    """The definitions of the works, one pair at a time."""
    blocks = pattern.blocks(-(-length // pattern.size)).tolist()

    def sees(query: int, key: int) -> bool:
        if query < pattern.tokens or key < pattern.tokens:
            return True
        if pattern.window:
            steps, rest = divmod(abs(query - key), pattern.step)
            return rest == 0 and steps <= pattern.size
        return key // pattern.size in blocks[query // pattern.size]

    return torch.tensor([[sees(q, k) for k in range(length)] for q in range(length)])


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("length", [1, 9, 33])
def test_blocks_are_the_dense_mask_there_and_back(length, pattern):
    """softmax(QKᵀ/√d + mask) V with a full mask of pairs."""
    plain, (states, mask) = attention(), rows_of(length)
    states.requires_grad_()
    seen = (dense(pattern, length) & mask) | torch.eye(length, dtype=torch.bool)
    query, key, value = in_heads(plain, states)
    scores = query @ key.mT / (WIDTH // HEADS) ** 0.5
    context = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    wanted, real = plain.output(joined(context)), mask[:, 0, 0]
    block = Sparse(plain, pattern)
    found = block(states, states, mask)
    torch.testing.assert_close(found[real], wanted[real])
    first, second = (torch.autograd.grad(each[real].square().sum(), states, retain_graph=True)[0]
                     for each in (found, wanted))  # fmt: skip
    torch.testing.assert_close(first, second)
    assert torch.equal(pairs(pattern, length) | torch.eye(length).bool(), seen[0, 0])


def test_memory_of_blocks_grows_with_the_length():
    found = []
    for length in (1024, 2048):
        block = mix(Mixing.BIGBIRD, attention(), Sizes(length, block=8)).float()
        states = torch.randn(1, length, WIDTH, requires_grad=True)
        found.append(peak_bytes(lambda: block(states, states).sum().backward()))  # noqa: B023
    assert found[1] < 2.2 * found[0]


def test_linear_attention_by_its_formula():
    plain, (states, mask) = attention(), rows_of(9)
    block = mix(Mixing.LINEAR, plain, Sizes(9))
    query, key, value = in_heads(plain, states)
    query, key = (torch.where(each > 0, each + 1, each.exp()) for each in (query, key))
    alike = (query @ key.mT).masked_fill(~mask, 0)
    context = alike / alike.sum(-1, keepdim=True) @ value
    torch.testing.assert_close(block(states, states, mask), plain.output(joined(context)))
