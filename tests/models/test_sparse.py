"""Attention in blocks: against a dense mask, by perturbation, and by the memory that it takes."""

from functools import cache

import numpy as np
import pytest
import torch

from headbook.experiments.costs import peak_bytes
from headbook.models.attention import Attention, AttentionPath
from headbook.models.capture import Point
from headbook.models.fewer_keys import Windowed
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.sparse import NONE, BigBird, Sparse, Window, lay_out, pairs
from headbook.types import UserError

WIDTH, HEADS = 12, 3
LENGTHS = (1, 2, 9, 33, 129)
PATTERNS = (
    Window(2),
    Window(8),
    Window(6, step=3),
    Window(8, causal=True),
    Window(6, step=2, causal=True),
    Window(8, tokens=3),
    Window(4, step=3, tokens=1),
    BigBird(4, 0, 1),
    BigBird(4, 2, 2, seed=5),
    BigBird(3, 5, 40),
)


def attention() -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, 0.0, AttentionPath.EXPLICIT).double()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def ragged(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows, of which two are shorter, and the mask of the padding."""
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return drawn(3, length, WIDTH), (torch.arange(length) < sizes[:, None])[:, None, None]


@cache
def blocks(pattern: BigBird, count: int) -> list[list[int]]:
    """The blocks of keys that each block of queries sees: many pairs ask for the same ones."""
    return pattern.blocks(count).tolist()


def sees(pattern: Window | BigBird, query: int, key: int, length: int) -> bool:
    """The definitions of the works, one pair at a time."""
    if query < pattern.tokens or key < pattern.tokens:
        return True
    if isinstance(pattern, BigBird):
        count = -(-length // pattern.size)
        return key // pattern.size in blocks(pattern, count)[query // pattern.size]
    apart = query - key
    if pattern.causal and apart < 0:
        return False
    return apart % pattern.step == 0 and abs(apart) // pattern.step <= pattern.window // 2


def dense(block: Attention, pattern, states, mask) -> torch.Tensor:
    """softmax(QKᵀ/√d + mask) V with a full mask of pairs."""
    length = states.shape[1]
    seen = torch.tensor([[sees(pattern, q, k, length) for k in range(length)]
                         for q in range(length)])  # fmt: skip
    seen = (seen & mask) | torch.eye(length, dtype=torch.bool)
    query, key, value = (each(states).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                         for each in (block.query, block.key, block.value))  # fmt: skip
    scores = query @ key.mT / (WIDTH // HEADS) ** 0.5
    context = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ value
    return block.output(context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_blocks_are_the_dense_mask_there_and_back(length, pattern):
    plain, (states, mask) = attention(), ragged(length)
    states.requires_grad_()
    found, wanted = (
        Sparse(plain, pattern)(states, states, mask),
        dense(plain, pattern, states, mask),
    )
    real = mask[:, 0, 0]
    torch.testing.assert_close(found[real], wanted[real])
    assert found.isfinite().all()
    first, second = (torch.autograd.grad(each[real].square().sum(), states)[0]
                     for each in (found, wanted))  # fmt: skip
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_recorded_weights_are_those_of_the_blocks(pattern):
    block, (states, mask) = Sparse(attention(), pattern), ragged(33)
    wanted, tape = block(states, states, mask), {}
    block.record = tape.__setitem__
    real = mask[:, 0, 0]
    torch.testing.assert_close(block(states, states, mask)[real], wanted[real])
    near = pairs(pattern, 33) | torch.eye(33, dtype=torch.bool)
    assert (tape[Point.WEIGHTS][0] > 0).eq(near).all()


@pytest.mark.parametrize("pattern", [each for each in PATTERNS if getattr(each, "causal", False)])
def test_a_causal_window_does_not_see_what_comes_later(pattern):
    block, states = Sparse(attention(), pattern), drawn(1, 33, WIDTH)
    before = block(states, states)
    for place in (1, 17, 32):
        changed = states.clone()
        changed[:, place:] += 1
        torch.testing.assert_close(block(changed, changed)[:, :place], before[:, :place])


def test_a_window_feels_a_change_as_far_as_it_reaches():
    block, states = Sparse(attention(), Window(8)), drawn(1, 33, WIDTH)
    changed = states.clone()
    changed[:, 16] += 1
    moved = (block(changed, changed) - block(states, states)).abs().sum(-1)[0] > 1e-9
    assert moved.nonzero()[:, 0].tolist() == list(range(12, 21))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40])
def test_no_block_is_seen_twice(count):
    for drawn_blocks in (0, 1, 3):
        for row in BigBird(2, 0, drawn_blocks).blocks(count).tolist():
            known = [each for each in row if each != NONE]
            assert len({*known}) == len(known) and {*known} <= {*range(count)}
            assert len(known) >= min(count, 2 + min(drawn_blocks, max(0, count - 3)))


def test_a_layout_has_as_many_keys_for_each_query_however_long_the_text_is():
    sizes = {lay_out(BigBird(4, 2, 2), length).keys.shape[1] for length in (64, 256)}
    assert sizes == {5 * 4}


def _growth(build) -> float:
    """Slope of the logarithm of the bytes over that of the length, by two lengths."""
    found = []
    for length in (1024, 2048):
        block = build(Attention(WIDTH, HEADS, 0.0, AttentionPath.EXPLICIT), length)
        states = torch.randn(1, length, WIDTH, requires_grad=True)
        work = lambda block=block, states=states: block(states, states).sum().backward()  # noqa: E731
        work()
        found.append(peak_bytes(work))
    return float(np.log2(found[1] / found[0]))


@pytest.mark.parametrize("kind", [each for each in Mixing if each is not Mixing.FULL])
def test_memory_grows_with_the_length(kind):
    def build(plain, length):
        return mix(kind, plain, Sizes(length, window=16, block=8, keys=16))

    assert _growth(build) < 1.1


def test_a_full_matrix_with_a_mask_is_found_out_by_its_memory():
    assert _growth(lambda plain, _: Windowed(plain, 17)) > 1.8
    assert _growth(lambda plain, _: plain) > 1.8


def test_peak_bytes_by_hand():
    given = torch.randn(100, 100)
    assert peak_bytes(lambda: given + given) == 40_000
    assert peak_bytes(lambda: (given + given).sum()) >= 40_000
    assert peak_bytes(lambda: [(given + given).numel() for _ in range(3)]) == 40_000
    assert peak_bytes(lambda: [given + given for _ in range(3)]) == 120_000


@pytest.mark.parametrize("length", LENGTHS)
def test_linear_attention_by_its_sums_one_query_at_a_time(length):
    plain = attention()
    block = mix(Mixing.LINEAR, plain, Sizes(length))
    states, mask = ragged(length)
    found = block(states, states, mask).detach()
    query, key, value = (each(states).detach().unflatten(-1, (HEADS, -1))
                         for each in (plain.query, plain.key, plain.value))  # fmt: skip
    query, key = (torch.where(each > 0, each + 1, each.exp()) for each in (query, key))
    for row, real in enumerate(mask[:, 0, 0]):
        for place in {0, length // 2, length - 1}:
            context = []
            for head in range(HEADS):
                alike = [query[row, place, head] @ known for known in key[row, real, head]]
                weighted = zip(alike, value[row, real, head], strict=True)
                context.append(sum(weight * known for weight, known in weighted) / sum(alike))
            torch.testing.assert_close(found[row, place], plain.output(torch.cat(context)))


@pytest.mark.parametrize("length", LENGTHS)
def test_an_lstm_reads_ragged_texts_as_it_reads_each_alone(length):
    block = mix(Mixing.LSTM, attention(), Sizes(length)).double()
    states, mask = ragged(length)
    found = block(states, states, mask)
    for row, real in enumerate(mask[:, 0, 0]):
        alone = states[row : row + 1, real]
        torch.testing.assert_close(found[row : row + 1, real], block(alone, alone))


def test_sizes_that_cannot_be_are_refused_in_one_line():
    for window in (0, 7):
        with pytest.raises(UserError, match=f"a window of {window} tokens has no two halves"):
            Window(window)
    with pytest.raises(UserError, match="give 1 and 0 or more"):
        Window(4, step=0)
    with pytest.raises(UserError, match="a causal window has none"):
        Window(4, tokens=1, causal=True)
    with pytest.raises(UserError, match="give 1, 0 and 0 or more"):
        BigBird(0, 1, 1)
    longer = drawn(1, 10, WIDTH)
    linformer = mix(Mixing.LINFORMER, attention().float(), Sizes(9, keys=3))
    with pytest.raises(UserError, match="for 9 tokens cannot read 10"):
        linformer(longer.float(), longer.float())


def test_what_a_pattern_cannot_do_is_said():
    block, states = Sparse(attention(), Window(4)), drawn(1, 9, WIDTH)
    with pytest.raises(UserError, match="9 queries and 5 keys"):
        block(states, states[:, :5])
    causal = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    with pytest.raises(UserError, match="use a causal Window"):
        block(states, states, causal)
    linear = mix(Mixing.LINEAR, attention(), Sizes(9))
    with pytest.raises(UserError, match="reads whole texts"):
        linear(states, states, causal)
    linear.record = print
    with pytest.raises(UserError, match="no weights to look at"):
        linear(states, states)
