"""Decoding: cached against uncached, and every search against a plain one written here."""

import pytest
import torch
from blocks import ragged, tiny
from torch import Tensor

from headbook.models.decoding import Beams, Search, translate
from headbook.models.transformer import NormPlacement, Transformer
from headbook.text.batches import EOS, PAD, pad

# Double precision: what is left is the order of summation.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
SMALL = {"source_vocabulary": 6, "target_vocabulary": 6, "encoder_layers": 1, "decoder_layers": 1}
SOURCES = [4, 1, 3, 2, 6, 5]


def limit(source: Tensor, search: Search) -> int:
    return int(search.longest * len(source)) + 10


def next_log_probabilities(model: Transformer, source: Tensor, words: list[int]) -> Tensor:
    """Of one more word after `words`, computed from scratch; PAD is no word."""
    with torch.no_grad():
        memory, mask = model.encode(source[None])
        states = model.decode(torch.tensor([[PAD, *words]]), memory, mask)
        logits = model.logits(states)[0, -1].float()
    logits[PAD] = -torch.inf
    return logits.log_softmax(-1)


def normalised(hypothesis: tuple[float, list[int]], search: Search) -> float:
    score, words = hypothesis
    return score / ((5 + len(words)) / 6) ** search.length_exponent


def naive_beam(model: Transformer, source: Tensor, search: Search) -> list[int]:
    """Beam search over Python lists, without a cache, one sentence at a time."""
    kept: list[tuple[float, list[int]]] = [(0.0, [])]
    for _ in range(limit(source, search)):
        pool = []
        for score, words in kept:
            if words and words[-1] == EOS:
                pool.append((score, words))
                continue
            following = next_log_probabilities(model, source, words)
            pool += [(score + float(following[word]), [*words, word]) for word in range(1, 6)]
        best = max(score for score, _ in pool)
        near = [one for one in pool if one[0] >= best - search.spread]
        kept = sorted(near, key=lambda one: -normalised(one, search))[: search.beam]
    finished = [one for one in kept if one[1][-1] == EOS]
    chosen = max(finished or kept, key=lambda one: normalised(one, search))
    return [word for word in chosen[1] if word != EOS]


def sources(seed: int = 0) -> list[Tensor]:
    batch = ragged(SOURCES, [1] * len(SOURCES), seed, vocabulary=6)
    return [row[row != PAD] for row in batch.source]


def stack(rows: list[Tensor]) -> Tensor:
    return pad([row.tolist() for row in rows])


@pytest.mark.parametrize(
    ("norm", "encoder_layers"), [(NormPlacement.PRE, 2), (NormPlacement.POST, 0)]
)
@pytest.mark.parametrize("chunks", [[1] * 9, [4, 1, 3, 1]])
def test_cached_decoding_equals_uncached(
    chunks: list[int], encoder_layers: int, norm: NormPlacement
) -> None:
    model, batch = tiny(encoder_layers=encoder_layers, norm=norm), ragged([5, 3, 1], [9, 2, 7])
    memory, mask = model.encode(batch.source) if encoder_layers else (None, None)
    whole = model.decode(batch.target_in, memory, mask)
    cache, steps = model.empty_cache(), []
    for chunk in batch.target_in.split(chunks, dim=1):
        steps.append(model.decode(chunk, memory, mask, cache))
        memory = None if memory is None else 0 * memory  # its keys and values are kept
    torch.testing.assert_close(torch.cat(steps, dim=1), whole, **CLOSE)


@pytest.mark.parametrize(
    "search",
    [Search(), Search(beam=1), Search(beam=3, spread=0.5), Search(3, 0.0, torch.inf, 0.0)],
    ids=["the paper's", "greedy", "narrow spread", "no penalty"],
)
def test_beam_search_equals_a_plain_one(search: Search) -> None:
    """Sentences end at their limit or before it, and leave the batch at different steps."""
    cut, greedy = set(), []
    for seed in (0, 3):
        model, rows = tiny(seed, **SMALL).eval(), sources(seed)[:4]
        expected = [naive_beam(model, row, search) for row in rows]
        assert translate(model, stack(rows), search) == expected
        assert translate(model, torch.nn.functional.pad(stack(rows), (0, 5)), search) == expected
        cut |= {len(one) == limit(row, search) for one, row in zip(expected, rows, strict=True)}
        greedy.append(expected == translate(model, stack(rows), Search(beam=1)))
    if search == Search():
        assert cut == {True, False} and not all(greedy), "else nothing is compared here"


def test_a_sentence_is_settled_when_nothing_can_overtake() -> None:
    """A finished hypothesis of one token has −2; −3.2 over ((5 + 13) / 6)^0.6 = 1.93 is more."""
    for growing, limit, settled in ((-3.2, 13, False), (-3.2, 3, True), (-6.0, 13, True)):
        beams = Beams.start(torch.tensor([limit]), beam=2)
        beams.scores, beams.lengths = torch.tensor([[-2.0, growing]]), torch.tensor([[1.0, 2.0]])
        beams.finished = torch.tensor([[True, False]])
        assert beams.settled(Search(beam=2)).tolist() == [settled]


def test_positions_grown_while_translating_can_be_trained_on() -> None:
    """A sentence beyond the prepared positions, first met in inference mode."""
    model = tiny(**SMALL)
    translate(model.eval(), ragged([270], [1], vocabulary=6).source, Search(1, longest=-1.0))
    model.train()(ragged([270], [3], vocabulary=6)).sum().backward()
    assert model.source.bias.grad.isfinite().all()
