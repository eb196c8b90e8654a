"""Attention to fewer keys: against dense slow forms, with ragged padding, and what is refused."""

import pytest
import torch

from headbook.models.attention import Attention, AttentionPath
from headbook.models.fewer_keys import (
    Fewer,
    FewerKeys,
    Mixed,
    Sharing,
    Windowed,
    look_at_fewer,
    means,
)
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.text.batches import PAD
from headbook.types import UserError

LONGEST, KEYS, WIDTH, HEADS = 129, 5, 12, 3
LENGTHS = (1, 2, 9, 33, 129)


def attention(path: AttentionPath = AttentionPath.EXPLICIT) -> Attention:
    torch.manual_seed(0)
    return Attention(WIDTH, HEADS, 0.0, path).double()


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ragged(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Three rows, of which two are shorter, and the mask of the padding."""
    states = drawn(3, length, WIDTH)
    sizes = torch.tensor([length, max(1, length // 2), 1])
    return states, (torch.arange(length) < sizes[:, None])[:, None, None]


def some(length: int) -> list[int]:
    """Places that are compared: all, or of long texts those near the ends and a few between."""
    ends = {*range(min(length, 4)), *range(max(0, length - 3), length)}
    return sorted(ends | {*range(9, length, 40)})


def slowly(block: Attention, states, real, seen) -> torch.Tensor:
    """One query of one head at a time; `seen(real, place, keys, values)` gives its keys, values.

    Zero at places that are not compared.
    """
    query, key, value = (each(states) for each in (block.query, block.key, block.value))
    size = WIDTH // HEADS
    context = torch.zeros_like(states)
    for row in range(len(states)):
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            for place in some(states.shape[1]):
                known, worth = seen(real[row], place, key[row, :, part], value[row, :, part])
                scores = torch.stack([query[row, place, part] @ one / size**0.5 for one in known])
                context[row, place, part] = scores.softmax(0) @ worth
    return block.output(context)


@pytest.mark.parametrize("path", [AttentionPath.EXPLICIT, AttentionPath.FUSED])
@pytest.mark.parametrize("length", LENGTHS)
def test_linformer_by_its_formula_one_query_at_a_time(length, path):
    of_keys, of_values = drawn(KEYS, LONGEST, seed=1), drawn(KEYS, LONGEST, seed=2)
    block = Mixed(attention(path), of_keys, of_values)
    states, mask = ragged(length)

    def seen(real, place, keys, values):
        places = [at for at in range(length) if real[at]]
        mixed = sum(torch.outer(of_keys[:, at], keys[at]) for at in places)
        return mixed, sum(torch.outer(of_values[:, at], values[at]) for at in places)

    found, wanted = block(states, states, mask), slowly(block, states, mask[:, 0, 0], seen)
    torch.testing.assert_close(found[:, some(length)], wanted[:, some(length)])


@pytest.mark.parametrize("length", LENGTHS)
def test_matrices_of_every_head_mix_its_own_keys(length):
    """Each head's context is that of an attention in which all heads have its matrices."""
    matrices, (states, mask), plain = drawn(HEADS, KEYS, LONGEST), ragged(length), attention()
    found = Mixed(plain, matrices, -matrices)(states, states, mask)
    apart = []
    for head in range(HEADS):
        whole = Mixed(plain, matrices[head], -matrices[head])
        context = whole._context(plain._queries(states), *plain._project(states), mask)
        apart.append(context[:, head])
    wanted = plain.output(torch.cat(apart, -1))
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("keys", [1, 2, 5, 8])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_window_by_its_formula_one_query_at_a_time(length, keys):
    block = Windowed(attention(), keys)
    states, mask = ragged(length)

    def seen(real, place, known, values):
        near = range(place - keys // 2, place + (keys - 1) // 2 + 1)
        places = [at for at in near if 0 <= at < length and real[at]]
        places = places or [place]  # of padding
        return known[places], values[places]

    found, real = block(states, states, mask), mask[:, 0, 0].clone()
    wanted = slowly(block, states, real, seen)
    real &= torch.isin(torch.arange(length), torch.tensor(some(length)))
    torch.testing.assert_close(found[real], wanted[real])
    assert found.isfinite().all()


def test_without_padding_and_with_the_identity_both_are_plain_attention():
    states, plain = drawn(2, 9, WIDTH), attention()
    wanted = plain(states, states)
    same = Mixed(plain, *[torch.eye(9, dtype=torch.float64)] * 2)
    torch.testing.assert_close(same(states, states), wanted)
    torch.testing.assert_close(Windowed(plain, 18)(states, states), wanted)


def test_padding_changes_nothing():
    states, block = drawn(1, 4, WIDTH), Mixed(attention(), *[drawn(KEYS, LONGEST, seed=1)] * 2)
    longer = torch.cat([states, 9 + drawn(1, 3, WIDTH)], 1)
    mask = (torch.arange(7) < 4)[None, None, None]
    found = block(longer, longer, mask)[:, :4]
    torch.testing.assert_close(found, block(states, states, mask[..., :4]))


def test_means_are_of_equal_parts():
    found = means(3, 7)
    torch.testing.assert_close(found.sum(1), torch.ones(3))
    assert sorted((found > 0).sum(1).tolist()) == [2, 2, 3] and ((found > 0).sum(0) == 1).all()


def encoder(fewer: FewerKeys) -> Transformer:
    config = TransformerConfig(20, 20, 2, 0, 8, 16, 2, 0.0)
    return look_at_fewer(Transformer(config), fewer).eval()


def test_projections_are_shared_as_the_paper_counts_them():
    counts = {Sharing.HEADS: 4, Sharing.KEY_VALUE: 2, Sharing.LAYERS: 1}
    for sharing, count in counts.items():
        model = encoder(FewerKeys(Fewer.LINFORMER, 3, 9, sharing))
        matrices = {id(each) for each in model.parameters() if each.shape == (3, 9)}
        assert len(matrices) == count
    own = encoder(FewerKeys(Fewer.LINFORMER, 3, 9, Sharing.NOTHING)).parameters()
    assert len({id(each) for each in own if each.shape == (2, 3, 9)}) == 4  # 2 heads, 2 layers
    pooled = encoder(FewerKeys(Fewer.POOLED, 3, 9))
    assert not any(each.requires_grad for each in pooled.parameters() if each.shape == (3, 9))


def test_a_whole_encoder_reads_ragged_texts():
    source = torch.tensor([[5, 6, 7, 8], [5, 6, PAD, PAD]])
    for kind in Fewer:
        model = encoder(FewerKeys(kind, 2, 9))
        states, _ = model.encode(source)
        alone, _ = model.encode(source[1:, :2])
        torch.testing.assert_close(states[1:, :2], alone)


def test_what_it_cannot_do_is_said_in_one_line():
    for keys in (0, 10):
        with pytest.raises(UserError, match=f"{keys} keys for texts of 9 tokens: give 1 to 9"):
            FewerKeys(Fewer.LINFORMER, keys, 9)
    model = encoder(FewerKeys(Fewer.LINFORMER, 3, 9))
    with pytest.raises(UserError, match="for 9 tokens cannot read 10"):
        model.encode(torch.full((1, 10), 5))
    block, states = Mixed(attention(), *[drawn(KEYS, LONGEST)] * 2), drawn(1, 4, WIDTH)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    with pytest.raises(UserError, match="cannot be causal"):
        block(states, states, causal)
    with pytest.raises(UserError, match="for encoders"):
        look_at_fewer(
            Transformer(TransformerConfig(20, 20, 0, 1, 8, 16, 2)),
            FewerKeys(Fewer.LINFORMER, 3, 9),
        )
