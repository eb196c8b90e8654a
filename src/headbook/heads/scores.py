"""What a head does, measured on its weights: the measures behind roles, and two more.

Each is a measure in the sense of measure.py; special tokens count as its docstring says.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.arcs import pieces_of, questions, tally, word_attention
from headbook.heads.diversity import counted_maps
from headbook.heads.recording import Recording, once
from headbook.heads.tokens import (
    NOWHERE,
    by_layer,
    counted_keys,
    counted_pairs,
    counted_queries,
    favourites,
    pointed,
    tokens_read,
    visible,
)
from headbook.models.capture import Point
from headbook.text.alignment import AlignedTree
from headbook.text.batches import Batch
from headbook.text.subwords import frequency_ranks
from headbook.types import Kind

Score = tuple[Float[Tensor, "batch layer head ..."], Float[Tensor, "batch ..."]]
REACH = 5
"""Largest offset of `positional`. The paper's positional heads are all at -1 or +1."""
OUTSIDE_TOP = 500
"""Voita et al. 2019, section 5.3: sentences whose least frequent token is outside the top 500."""


def confidence(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Mean over query tokens of the largest weight, [layer, head], between 0 and 1.

    Voita et al. 2019, section 4: mean of max_j a_ij with EOS left out (footnote 2). The mean is
    over all query tokens of the corpus, so a long sentence weighs more than a short one.
    """
    return _mean(favourites(tape, batch, kind)[0], counted_queries(batch, kind))


def special(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Mean over real query tokens of the weight on special keys, [layer, head], between 0 and 1.

    Weight on no key at all counts too: rows of models with attention sinks sum to less than 1.
    What is left, 1 minus this, is all that the measures of real tokens see.
    """
    pairs = counted_pairs(batch, kind)
    rest = by_layer(tape, kind, lambda weights: 1 - visible(weights, pairs).double().sum(-1))
    return _mean(rest, counted_queries(batch, kind))


def first(tape: Recording, batch: Batch, kind: Kind = Kind.DECODER) -> Score:
    """Mean weight on token 1, [layer, head], over the query tokens after it.

    Token 1 is what the model reads first, whatever that is (Xiao et al. 2024: the attention sink):
    a start token, which is no key of any other measure, or a word where there is none (GPT-2).
    """
    return _mean(by_layer(tape, kind, lambda weights: weights[..., 0]), _later(batch, kind))


def confidences(tape: Recording, batch: Batch, kind: Kind = Kind.DECODER) -> Score:
    """Mean largest weight, [layer, head, 2], with token 1 among the keys and without it.

    Over the query tokens after token 1, so that models with and without a start token compare.
    """
    keys = counted_pairs(batch, kind)
    without = keys & (torch.arange(keys.shape[-1], device=keys.device) > 0)
    largest = by_layer(tape, kind, lambda weights: visible(weights, without).amax(-1))
    token = by_layer(tape, kind, lambda weights: weights[..., 0])
    both = torch.stack([torch.maximum(largest, token), largest], dim=-1)
    return _mean(both, _later(batch, kind))


def _later(batch: Batch, kind: Kind) -> Bool[Tensor, "batch query"]:
    """The query tokens that count, without token 1."""
    queries = counted_queries(batch, kind).clone()
    queries[:, 0] = False
    return queries


def entropy(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Mean over queries of the entropy of a row of the map, in nats, [layer, head]; EOS counts."""
    queries = counted_queries(batch, kind, boundary=True)
    maps = [counted_maps(each, batch, kind) for each in tape[kind, Point.WEIGHTS]]
    found = torch.stack([torch.special.entr(each).sum((-2, -1)) for each in maps], dim=1)
    return found, queries.double().sum(1)[:, None, None]


def _mean(
    values: Float[Tensor, "batch layer head query ..."], queries: Bool[Tensor, "batch query"]
) -> Score:
    counted = queries.reshape(len(queries), 1, 1, -1, *[1] * (values.ndim - 4))
    number = counted.double().sum(3).expand(-1, -1, -1, *values.shape[4:])
    # Filled, not multiplied: what rows of padding hold need not be a number.
    return values.masked_fill(~counted, 0.0).double().sum(3), number


def positional(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Share of query tokens that point at query + offset, [layer, head, offset].

    Offsets run from -REACH to REACH in tokens (subword pieces). Voita et al. 2019, section 5.1,
    call a head positional at 90 %; which tokens count is not stated there. Here a token does not
    count at an offset at which its sentence has no token it could point at. In cross-attention the
    offset is source position minus target position.
    """
    queries, (_, key) = counted_queries(batch, kind), favourites(tape, batch, kind)
    offset = key - torch.arange(key.shape[-1], device=key.device)
    within = (key != NOWHERE) & (offset.abs() <= REACH) & queries[:, None, None]
    slot = torch.where(within, offset + REACH, 2 * REACH + 1)  # all others: one more, cut off
    hits = torch.zeros(*key.shape[:-1], 2 * REACH + 2, device=key.device)
    hits.scatter_add_(-1, slot, torch.ones_like(slot, dtype=hits.dtype))
    return hits[..., :-1], _by_offset(counted_pairs(batch, kind).double() * queries[:, :, None])


def positional_chance(tape: Recording, batch: Batch, kind: Kind = Kind.DECODER) -> Score:
    """The same for a head that points at every key that it sees equally often, [1, 1, offset].

    It is large for the own token where attention is causal: the first has nowhere else to look.
    """
    pairs = counted_pairs(batch, kind).double() * counted_queries(batch, kind)[:, :, None]
    return _by_offset(pairs / pairs.sum(-1, keepdim=True).clamp(min=1)), _by_offset(pairs)


def _by_offset(
    pairs: Float[Tensor, "batch query key"],
) -> Float[Tensor, "batch layer=1 head=1 offset"]:
    """Sums over pairs of query and key at each offset from -REACH to REACH."""
    sums = [pairs.diagonal(at, 1, 2).sum(-1) for at in range(-REACH, REACH + 1)]
    return torch.stack(sums, dim=-1)[:, None, None]


def syntactic(
    tape: Recording, batch: Batch, trees: Sequence[AlignedTree], kind: Kind = Kind.ENCODER
) -> Score:
    """Share of arcs whose asking word points at its partner, [layer, head, 8].

    The last axis is RELATION_DIRECTIONS. Voita et al. 2019, section 5.2: EOS is left out before the
    argmax. A word's attention is the mean over its pieces of the sum over the other word's. A
    uniform head points at the word of most pieces, and nowhere where several have as many. Of a
    decoder the end of an arc that comes later asks, as it cannot see the other way. `trees` are
    looked up by the sentences' numbers. UserError where a tree has another number of pieces than
    its sentence.
    """
    pieces = pieces_of(trees, batch, kind)
    own = [trees[number] for number in batch.sentences.tolist()]
    asked = questions(own, kind is Kind.DECODER).to(pieces.device)
    answers = by_layer(tape, kind, lambda weights: pointed(word_attention(weights, pieces))[1])[
        asked.row, :, :, asked.word
    ]
    right = (answers == asked.partner[:, None, None]).double()
    number = tally(asked, torch.ones_like(right[:, :1, :1]), len(batch))
    return tally(asked, right, len(batch)).movedim(1, -1), number.movedim(1, -1)


def rare(
    tape: Recording,
    batch: Batch,
    ranks: Int[Tensor, " vocabulary"],
    by_sentence: bool = False,
    kind: Kind = Kind.ENCODER,
) -> Score:
    """Share of pointing at the rarest token, and at one of the two rarest, [layer, head, 2].

    `ranks` gives each source piece's frequency rank on the training source, 0 the most frequent;
    EOS is never the rarest. Sentences without a token of rank OUTSIDE_TOP or above are left out.
    Of a decoder the rarest are those of the tokens up to the query, which are all that it sees.
    Counted are query tokens or, `by_sentence` (of an encoder), sentences by their most attended
    token, summed over queries: the paper does not say which.
    """
    places, asking = _rare(tape, batch, ranks, kind)
    key = favourites(tape, batch, kind)[1]
    if by_sentence:
        pairs = counted_pairs(batch, Kind.ENCODER) & asking[:, :, None]
        key = by_layer(
            tape,
            Kind.ENCODER,
            lambda weights: pointed(visible(weights, pairs).float().sum(-2, keepdim=True))[1],
        )
        asking = asking.any(-1, keepdim=True)
    sentence, query = (torch.arange(size, device=key.device) for size in (len(key), key.shape[-1]))
    by_query = places.expand(-1, key.shape[-1], -1, -1) if places.shape[1] == 1 else places
    right = by_query[sentence[:, None, None, None], query, key.clamp(min=0)]
    right = right & (key != NOWHERE)[..., None]
    hits = (right & asking[:, None, None, :, None]).sum(-2).double()
    return hits, asking.double().sum(-1)[:, None, None, None].expand(-1, -1, -1, 2)


def rare_chance(
    tape: Recording,
    batch: Batch,
    ranks: Int[Tensor, " vocabulary"],
    by_sentence: bool = False,
    kind: Kind = Kind.ENCODER,
) -> Score:
    """The same share for a head that points at every key that counts equally often, [1, 1, 2]."""
    places, asking = _rare(tape, batch, ranks, kind)
    seen = _seen(batch, kind).double().sum(-1, keepdim=True)
    shares = places.double().sum(-2) / seen.clamp(min=1)
    count = (asking.any(-1, keepdim=True) if by_sentence else asking).double()[..., None]
    sums = ((shares * count).sum(1), count.sum(1).expand(-1, 2))
    return tuple(each[:, None, None] for each in sums)


def _rare(
    tape: Recording, batch: Batch, ranks: Int[Tensor, " vocabulary"], kind: Kind
) -> tuple[Bool[Tensor, "batch asked key 2"], Bool[Tensor, "batch query"]]:
    """Where the rarest and the two rarest tokens stand, every occurrence of them, and the queries
    that are asked: for every query of a decoder, for all of an encoder's together (asked=1)."""

    def make() -> tuple[Tensor, Tensor]:
        words = counted_keys(batch, kind)
        seen = _seen(batch, kind)
        rank = torch.where(seen, ranks.to(words.device)[tokens_read(batch, kind)][:, None], -1)
        rarest = rank.amax(-1, keepdim=True)
        second = torch.where(rank < rarest, rank, -1).amax(-1, keepdim=True)
        places = torch.stack([rank == rarest, (rank == rarest) | (rank == second)], dim=-1)
        return places & seen[..., None], words & (rarest[..., 0] >= OUTSIDE_TOP)

    return once(tape, (_rare, id(ranks), kind), make)


def _seen(batch: Batch, kind: Kind) -> Bool[Tensor, "batch asked key"]:
    """The keys that count: for every query of a decoder, for all of an encoder's (asked=1)."""
    if kind is Kind.DECODER:
        return counted_pairs(batch, kind)
    return counted_keys(batch, kind)[:, None]


def ranks_in(batches: Iterable[Batch], kind: Kind = Kind.ENCODER) -> Int[Tensor, " vocabulary"]:
    """Frequency rank of every token that this kind of attention looks at by its count in these
    batches, 0 the most frequent."""
    batches = list(batches)
    rows = [tokens_read(each, kind)[counted_keys(each, kind)].tolist() for each in batches]
    return frequency_ranks(rows, max(int(tokens_read(each, kind).max()) for each in batches) + 1)
