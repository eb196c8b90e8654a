"""Diversity of heads: known answers, scale and padding, and a plain form of every formula."""

import copy
import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from headbook.heads.diversity_grams import Grams, HeadGrams
from headbook.heads.diversity_maps import (
    MapEntropy,
    MapOverlap,
    MapVariance,
    QueryDependence,
)
from headbook.heads.diversity_pairs import (
    PairCosine,
    SentenceCosine,
    SliceCosine,
    disagreement,
    dissimilarity,
    mean_of_pairs,
)
from headbook.heads.outputs import parts_of
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

LAYERS, HEADS, DIM = 2, 3, 4
MODEL = HEADS * DIM
WEIGHTS = [
    torch.randn(MODEL, MODEL, generator=torch.Generator().manual_seed(layer))
    for layer in range(LAYERS)
]
PARTS = [parts_of(weight, HEADS) for weight in WEIGHTS]
COSINES = {
    "subspaces": lambda kind: PairCosine(kind, Point.VALUES),
    "contexts": lambda kind: PairCosine(kind),
    "outputs": lambda kind: PairCosine(kind, projections=PARTS),
}
MAPS = {
    "overlap": MapOverlap, "entropy": MapEntropy,
    "variance": MapVariance, "dependence": QueryDependence,
}  # fmt: skip
RATIOS = (
    COSINES
    | MAPS
    | {
        "slices": lambda kind: SliceCosine(kind, HEADS),
        "sentences": lambda kind: SentenceCosine(kind),
    }
)
GRAMS = {
    "queries": lambda kind: HeadGrams(kind, Point.QUERIES),
    "values": lambda kind: HeadGrams(kind, Point.VALUES),
}
EVERY = RATIOS | GRAMS
with_every = pytest.mark.parametrize("name", EVERY)
with_kinds = pytest.mark.parametrize("kind", list(Kind))


def drawn(batch: Batch, size: tuple[int, ...], turn: int) -> Tensor:
    """[batch, *size], the same for a sentence whatever its batch, and for longer ones the same."""
    rows = []
    for sentence in batch.sentences.tolist():
        generator = torch.Generator().manual_seed(100 * sentence + turn)
        whole = torch.randn(LAYERS, HEADS, 140, size[-1], generator=generator)
        rows.append(whole[:, :, : size[-2]])
    return torch.stack(rows)


@pytest.fixture
def recording(attention: Callable) -> Callable[..., dict]:
    """recording(batch, kind): random weights, values and queries, and what follows from them."""

    def record(batch: Batch, kind: Kind) -> dict:
        tape = attention(batch, kind, LAYERS, HEADS)
        weights = tape[kind, Point.WEIGHTS]
        queries, keys = weights[0].shape[-2:]
        values = list(drawn(batch, (keys, DIM), 1).unbind(1))
        context = [one @ other for one, other in zip(weights, values, strict=True)]
        outputs = [
            each.transpose(1, 2).flatten(2) @ weight.T
            for each, weight in zip(context, WEIGHTS, strict=True)
        ]
        tape[kind, Point.VALUES], tape[kind, Point.CONTEXT] = values, context
        tape[kind, Point.QUERIES] = list(drawn(batch, (queries, DIM), 2).unbind(1))
        tape[kind, Point.OUTPUT] = outputs
        return tape

    return record


def numbers(measure: object) -> list[Tensor]:
    """Everything a measure found, as tensors."""
    if isinstance(measure, HeadGrams):
        found = measure.grams()
        return [found.products, found.sums, found.alignment()]
    return [measure.compute()]


def after(make: Callable, kind: Kind, updates: list[tuple[dict, Batch]]) -> list[Tensor]:
    measure = make(kind)
    for tape, batch in updates:
        measure.update(tape, batch)
    return numbers(measure)


def same(one: list[Tensor], other: list[Tensor]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6, equal_nan=True)


@with_kinds
@with_every
def test_splitting_permuting_and_padding_change_nothing(name, kind, corpus, recording) -> None:
    def found(parts: list[list[int]], extra: int = 0) -> list[Tensor]:
        batches = [corpus.batch(part, extra) for part in parts]
        return after(EVERY[name], kind, [(recording(batch, kind), batch) for batch in batches])

    whole = found([list(range(12))])
    same(whole, found([[number] for number in range(12)]))
    same(whole, found([[7, 0, 11, 3], [1, 2, 4, 5, 6, 8, 9, 10]]))
    same(whole, found([list(range(12))], extra=4))


@with_every
def test_lengths_of_the_ladder_alone_and_together(name, ladder, recording) -> None:
    rows = [0, 4, 8, 12, 16]
    together = ladder.batch(rows)
    alone = [ladder.batch([row]) for row in rows]
    found = [
        after(
            EVERY[name], Kind.ENCODER, [(recording(batch, Kind.ENCODER), batch) for batch in each]
        )
        for each in ([together], alone)
    ]
    same(*found)


@with_kinds
@with_every
def test_padding_may_hold_anything(name, kind, corpus, recording) -> None:
    batch = corpus.batch([0, 1, 2, 3], extra=3)
    tape = recording(batch, kind)
    queries = batch.source_mask if kind is Kind.ENCODER else batch.target_mask
    keys = batch.target_mask if kind is Kind.DECODER else batch.source_mask
    garbled = dict(tape)
    for point, real in ((Point.QUERIES, queries), (Point.CONTEXT, queries), (Point.VALUES, keys),
                        (Point.WEIGHTS, queries)):  # fmt: skip
        mask = real[:, None, :, None]
        garbled[kind, point] = [torch.where(mask, e, torch.nan) for e in tape[kind, point]]
    mask = queries[:, :, None]
    garbled[kind, Point.OUTPUT] = [torch.where(mask, e, 9.0) for e in tape[kind, Point.OUTPUT]]
    same(*(after(EVERY[name], kind, [(each, batch)]) for each in (tape, garbled)))


@with_every
def test_permuting_heads_permutes_what_is_found(name, corpus, recording) -> None:
    batch, order = corpus.batch(list(range(8))), [2, 0, 1]
    tape = recording(batch, Kind.ENCODER)
    turned = {
        address: [each[:, order] if address[1] != Point.OUTPUT else each for each in layers]
        for address, layers in tape.items()
    }
    make = EVERY[name]
    if name == "outputs":
        moved = [part[order] for part in PARTS]
        plain, permuted = make(Kind.ENCODER), PairCosine(Kind.ENCODER, projections=moved)
    elif name == "slices":
        blocks = [each.unflatten(-1, (HEADS, DIM))[:, :, order].flatten(2)
                  for each in tape[Kind.ENCODER, Point.OUTPUT]]  # fmt: skip
        turned[Kind.ENCODER, Point.OUTPUT] = blocks
        plain, permuted = make(Kind.ENCODER), make(Kind.ENCODER)
    else:
        plain, permuted = make(Kind.ENCODER), make(Kind.ENCODER)
    plain.update(tape, batch)
    permuted.update(turned, batch)
    for mine, theirs in zip(numbers(permuted), numbers(plain), strict=True):
        expected = theirs[:, order]
        if expected.ndim > 2 and expected.shape[2] == HEADS:
            expected = expected[:, :, order]
        torch.testing.assert_close(mine, expected)


@with_every
def test_inputs_are_left_alone(name, corpus, recording) -> None:
    batch = corpus.batch([0, 1, 2])
    tape = recording(batch, Kind.ENCODER)
    before = copy.deepcopy(tape)
    EVERY[name](Kind.ENCODER).update(tape, batch)
    for address, layers in tape.items():
        assert all(map(torch.equal, layers, before[address]))


def times(tape: dict, factor: float) -> dict:
    """Activations times a constant; weights are what they are."""
    return {
        address: [each if address[1] == Point.WEIGHTS else factor * each for each in layers]
        for address, layers in tape.items()
    }


def test_a_constant_moves_raw_metrics_and_no_scale_free_one(corpus, recording) -> None:
    batch = corpus.batch(list(range(10)))
    tape = recording(batch, Kind.ENCODER)
    scaled = times(tape, 3.0)
    for name in COSINES | {"slices": 0, "sentences": 0}:
        same(*(after(EVERY[name], Kind.ENCODER, [(each, batch)]) for each in (tape, scaled)))
    plain, larger = (grams(each, batch, Point.QUERIES) for each in (tape, scaled))
    torch.testing.assert_close(plain.alignment(), larger.alignment())
    for raw in (Grams.orthogonality, Grams.non_orthogonality):
        torch.testing.assert_close(9 * raw(plain), raw(larger))


def grams(tape: dict, batch: Batch, point: Point = Point.CONTEXT) -> Grams:
    measure = HeadGrams(Kind.ENCODER, point)
    measure.update(tape, batch)
    return measure.grams()


def test_twice_the_text_moves_raw_metrics_and_no_scale_free_one(corpus, recording) -> None:
    batch = corpus.batch(list(range(10)))
    tape = recording(batch, Kind.ENCODER)
    once, twice = HeadGrams(Kind.ENCODER, Point.QUERIES), HeadGrams(Kind.ENCODER, Point.QUERIES)
    once.update(tape, batch)
    twice.update(tape, batch)
    twice.update(tape, batch)
    one, two = once.grams(), twice.grams()
    torch.testing.assert_close(one.alignment(), two.alignment())
    torch.testing.assert_close(2 * one.orthogonality(), two.orthogonality())


def planted(batch: Batch, heads: list[Tensor]) -> dict:
    """A recording of one layer whose contexts, [token, dim] a head, the same in every sentence."""
    context = torch.stack(heads).expand(len(batch), -1, -1, -1)
    return {(Kind.ENCODER, Point.CONTEXT): [context]}


@pytest.fixture
def long(ladder) -> Batch:
    """Two sentences of 33 tokens and EOS."""
    return ladder.batch([12, 13])


def vectors(seed: int, size: int = DIM) -> Tensor:
    return torch.randn(34, size, generator=torch.Generator().manual_seed(seed))


def test_identical_heads(long) -> None:
    one = vectors(1)
    tape = planted(long, [one, one, -2 * one])
    found = grams(tape, long)
    torch.testing.assert_close(found.alignment(), torch.ones(1, 3, 3, dtype=torch.float64))
    cosines = after(COSINES["contexts"], Kind.ENCODER, [(tape, long)])[0][0]
    expected = torch.tensor([[1, 1, -1], [1, 1, -1], [-1, -1, 1]], dtype=torch.float64)
    torch.testing.assert_close(cosines, expected, rtol=0, atol=1e-6)


def test_orthogonal_heads(long) -> None:
    """Heads whose tokens are disjoint share no direction over the text, nor at any token."""
    one, two = vectors(1), vectors(2)
    one[:17], two[17:] = 0, 0
    found = grams(planted(long, [one, two]), long)
    for pairs in (found.alignment(), found.orthogonality(), found.non_orthogonality()):
        assert pairs[0, 0, 1] == pairs[0, 1, 0] == 0
    cosines = after(COSINES["contexts"], Kind.ENCODER, [(planted(long, [one, two]), long)])[0]
    assert cosines[0, 0, 1] == 0 and dissimilarity(cosines)[0, 0, 1] == 0


def test_a_rotated_head_is_the_same_subspace_and_another_vector(long) -> None:
    one = vectors(1)
    turn = torch.linalg.qr(vectors(3)[:DIM]).Q
    tape = planted(long, [one, one @ turn])
    found = grams(tape, long)
    assert found.alignment()[0, 0, 1] == pytest.approx(1.0, abs=1e-6)
    cosines = after(COSINES["contexts"], Kind.ENCODER, [(tape, long)])[0]
    assert abs(float(cosines[0, 0, 1])) < 0.9


def test_unrelated_heads_are_nearly_dissimilar(ladder) -> None:
    batch = ladder.batch([16, 17, 18, 19])
    length = batch.source.shape[1]
    generator = torch.Generator().manual_seed(5)
    heads = torch.randn(4, 2, length, 64, generator=generator)
    tape = {(Kind.ENCODER, Point.CONTEXT): [heads]}
    cosines = after(COSINES["contexts"], Kind.ENCODER, [(tape, batch)])[0]
    assert abs(float(cosines[0, 0, 1])) < 0.02
    # but what they span overlaps by chance, the more the fewer tokens there are
    assert 0.2 < grams(tape, batch).alignment()[0, 0, 1] < 0.6


def test_slices_behind_the_projection_are_not_the_heads_outputs(corpus, recording) -> None:
    batch = corpus.batch(list(range(10)))
    tape = recording(batch, Kind.ENCODER)
    slices, outputs = (
        after(EVERY[name], Kind.ENCODER, [(tape, batch)])[0] for name in ("slices", "outputs")
    )
    assert (slices - outputs).abs().amax() > 0.1


def test_outputs_of_heads_add_up_to_the_block(corpus, recording) -> None:
    """Cut rightly, C_h W_O^h summed over the heads is the output without its bias."""
    tape = recording(corpus.batch([0, 1]), Kind.ENCODER)
    contexts, outputs = (tape[Kind.ENCODER, point] for point in (Point.CONTEXT, Point.OUTPUT))
    for context, output, parts in zip(contexts, outputs, PARTS, strict=True):
        added = torch.einsum("bhtd,hdm->btm", context, parts)
        torch.testing.assert_close(added, output)


def real_tokens(batch: Batch) -> list[tuple[int, int]]:
    return [tuple(place) for place in batch.source_mask.nonzero().tolist()]


def test_grams_are_what_plain_loops_give(corpus, recording) -> None:
    batch = corpus.batch([0, 1, 2, 3])
    tape = recording(batch, Kind.ENCODER)
    found = grams(tape, batch, Point.QUERIES)
    for layer, one, other in product(range(LAYERS), range(HEADS), range(HEADS)):
        queries = tape[Kind.ENCODER, Point.QUERIES][layer].double()
        mine, theirs = (
            torch.stack([queries[row, head, at] for row, at in real_tokens(batch)])
            for head in (one, other)
        )
        gram = mine.T @ theirs
        if one != other:
            assert found.orthogonality()[layer, one, other] == pytest.approx(
                float(gram.abs().sum())
            )
            assert found.non_orthogonality()[layer, one, other] == pytest.approx(float(gram.norm()))
        size = math.sqrt(float((mine.T @ mine).norm() * (theirs.T @ theirs).norm()))
        assert found.alignment()[layer, one, other] == pytest.approx(float(gram.norm()) / size)
    assert found.orthogonality().diagonal(dim1=1, dim2=2).abs().max() == 0


def test_cosines_are_what_torch_gives(corpus, recording) -> None:
    batch = corpus.batch([0, 1, 2, 3])
    tape = recording(batch, Kind.ENCODER)
    values = tape[Kind.ENCODER, Point.VALUES][1]
    expected = functional.cosine_similarity(values[:, 0], values[:, 2], dim=-1)
    expected = expected[batch.source_mask].mean()
    found = after(COSINES["subspaces"], Kind.ENCODER, [(tape, batch)])[0]
    assert found[1, 0, 2] == pytest.approx(float(expected), abs=1e-6)
    assert disagreement(found)[1] == pytest.approx(-float(found[1].sum()) / HEADS**2)
    off = [float(found[1, i, j]) for i, j in product(range(HEADS), repeat=2) if i != j]
    assert mean_of_pairs(found)[1] == pytest.approx(sum(off) / len(off))


def test_lee_s_terms_by_hand(long) -> None:
    """Two sentences; mean contexts of head 0 at a right angle, of head 1 equal."""
    e = torch.eye(DIM)
    context = torch.stack(
        [torch.stack([e[0], e[0]]), torch.stack([e[1], e[0]])]
    )[:, :, None].expand(-1, -1, 34, -1)  # fmt: skip
    tape = {(Kind.ENCODER, Point.CONTEXT): [context]}
    between = after(RATIOS["sentences"], Kind.ENCODER, [(tape, long)])[0]
    assert between[0, 0, 1] == pytest.approx(0.5)  # one in the first sentence, none in the second


def maps(batch: Batch, *heads: Tensor) -> dict:
    """Each head's [query, key] map, cut to the sentence."""
    size = batch.source.shape[1]
    stacked = torch.stack(heads)[:, :size, :size].expand(len(batch), -1, -1, -1)
    return {(Kind.ENCODER, Point.WEIGHTS): [stacked.float()]}


def test_maps_by_hand(long) -> None:
    size = 34
    identity, shifted = torch.eye(size), torch.eye(size).roll(1, dims=1)
    first = torch.zeros(size, size)
    first[:, 0] = 1
    uniform = torch.full((size, size), 1 / size)
    tape = maps(long, identity, shifted, first, uniform)
    found = {name: after(make, Kind.ENCODER, [(tape, long)])[0][0] for name, make in MAPS.items()}
    assert found["overlap"][0, 0] == 1 and found["overlap"][0, 1] == 0
    assert found["overlap"][0, 3] == pytest.approx(1 / size)
    assert found["entropy"].tolist() == pytest.approx([0, 0, 0, math.log(size)], abs=1e-5)
    assert found["dependence"].tolist() == pytest.approx([1, 1, 0, 0], abs=1e-5)
    # of a column of the identity: mean 1/n, so variance 1/n - 1/n²
    expected = [1 / size - 1 / size**2] * 2 + [0, 0]
    assert found["variance"].tolist() == pytest.approx(expected, abs=1e-6)


def test_the_variance_is_over_queries_and_not_over_keys(long) -> None:
    """Where every query looks at the first token rows vary, and no column does."""
    first = torch.zeros(34, 34)
    first[:, 0] = 1
    tape = maps(long, first)
    assert after(MAPS["variance"], Kind.ENCODER, [(tape, long)])[0].abs().max() < 1e-9
    assert first.var(dim=1, correction=0).mean() > 0


def test_variance_is_torch_s(corpus, recording) -> None:
    batch = corpus.batch([5])
    tape = recording(batch, Kind.ENCODER)
    expected = tape[Kind.ENCODER, Point.WEIGHTS][0].double().var(dim=2, correction=0).mean(-1)[0]
    found = after(MAPS["variance"], Kind.ENCODER, [(tape, batch)])[0][0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", GRAMS)
def test_nothing_measured_is_said(name) -> None:
    with pytest.raises(UserError, match=r"no token|no pair"):
        numbers(GRAMS[name](Kind.ENCODER))


def test_what_has_no_vectors_is_refused() -> None:
    with pytest.raises(UserError, match="diversity of weights"):
        HeadGrams(Kind.ENCODER, Point.WEIGHTS)
    with pytest.raises(UserError, match="made of contexts"):
        PairCosine(Kind.ENCODER, Point.VALUES, PARTS)
