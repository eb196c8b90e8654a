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
    return _mean(favourites(tape, batch, kind)[0], batch, kind)


def special(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Mean over real query tokens of the weight on special keys, [layer, head], between 0 and 1.

    Weight on no key at all counts too: rows of models with attention sinks sum to less than 1.
    What is left, 1 minus this, is all that the measures of real tokens see.
    """
    pairs = counted_pairs(batch, kind)
    rest = by_layer(tape, kind, lambda weights: 1 - visible(weights, pairs).double().sum(-1))
    return _mean(rest, batch, kind)


def entropy(tape: Recording, batch: Batch, kind: Kind = Kind.ENCODER) -> Score:
    """Mean over queries of the entropy of a row of the map, in nats, [layer, head]; EOS counts."""
    queries = counted_queries(batch, kind, boundary=True)
    maps = [counted_maps(each, batch, kind) for each in tape[kind, Point.WEIGHTS]]
    found = torch.stack([torch.special.entr(each).sum((-2, -1)) for each in maps], dim=1)
    return found, queries.double().sum(1)[:, None, None]


def _mean(values: Float[Tensor, "batch layer head query"], batch: Batch, kind: Kind) -> Score:
    """Over the queries that count."""
    queries = counted_queries(batch, kind)[:, None, None]
    # Filled, not multiplied: what rows of padding hold need not be a number.
    return values.masked_fill(~queries, 0.0).double().sum(-1), queries.double().sum(-1)


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
    pairs = counted_pairs(batch, kind) & queries[:, :, None]
    reachable = [pairs.diagonal(at, 1, 2).sum(-1) for at in range(-REACH, REACH + 1)]
    return hits[..., :-1], torch.stack(reachable, dim=-1)[:, None, None].double()


def syntactic(tape: Recording, batch: Batch, trees: Sequence[AlignedTree]) -> Score:
    """Share of arcs whose asking word points at its partner, [layer, head, 8].

    The last axis is RELATION_DIRECTIONS. Voita et al. 2019, section 5.2: EOS is left out before the
    argmax. A uniform head points at the word of most pieces, and nowhere where several have as
    many. `trees` are looked up by the sentences' numbers. UserError where a tree has another number
    of pieces than its sentence.
    """
    pieces = pieces_of(trees, batch)
    asked = questions([trees[number] for number in batch.sentences.tolist()]).to(pieces.device)
    answers = by_layer(
        tape, Kind.ENCODER, lambda weights: pointed(word_attention(weights, pieces))[1]
    )[asked.row, :, :, asked.word]
    right = (answers == asked.partner[:, None, None]).double()
    number = tally(asked, torch.ones_like(right[:, :1, :1]), len(batch))
    return tally(asked, right, len(batch)).movedim(1, -1), number.movedim(1, -1)


def rare(
    tape: Recording, batch: Batch, ranks: Int[Tensor, " vocabulary"], by_sentence: bool = False
) -> Score:
    """Share of pointing at the rarest token, and at one of the two rarest, [layer, head, 2].

    `ranks` gives each source piece's frequency rank on the training source, 0 the most frequent;
    EOS is never the rarest. Sentences without a token of rank OUTSIDE_TOP or above are left out.
    Counted are query tokens or, `by_sentence`, sentences by their most attended token, summed over
    queries: the paper does not say which.
    """
    places, asking = _rare(tape, batch, ranks)
    key = favourites(tape, batch, Kind.ENCODER)[1]
    if by_sentence:
        pairs = counted_pairs(batch, Kind.ENCODER) & asking[:, :, None]
        key = by_layer(
            tape,
            Kind.ENCODER,
            lambda weights: pointed(visible(weights, pairs).float().sum(-2, keepdim=True))[1],
        )
        asking = asking.any(-1, keepdim=True)
    sentence = torch.arange(len(key), device=key.device)[:, None, None, None]
    right = places.mT[sentence, key.clamp(min=0)] & (key != NOWHERE)[..., None]
    hits = (right & asking[:, None, None, :, None]).sum(-2).double()
    return hits, asking.double().sum(-1)[:, None, None, None].expand(-1, -1, -1, 2)


def rare_chance(
    tape: Recording, batch: Batch, ranks: Int[Tensor, " vocabulary"], by_sentence: bool = False
) -> Score:
    """The same share for a head that points at every key that counts equally often, [1, 1, 2]."""
    places, asking = _rare(tape, batch, ranks)
    count = (asking.any(-1, keepdim=True) if by_sentence else asking).double().sum(-1)
    keys = counted_keys(batch, Kind.ENCODER).double().sum(-1).clamp(min=1)
    count = count[:, None, None, None].expand(-1, -1, -1, 2)
    return (places.double().sum(-1) / keys[:, None])[:, None, None] * count, count


def _rare(
    tape: Recording, batch: Batch, ranks: Int[Tensor, " vocabulary"]
) -> tuple[Bool[Tensor, "batch 2 key"], Bool[Tensor, "batch query"]]:
    """Where each sentence's rarest and two rarest tokens stand, every occurrence of them, and the
    queries that are asked."""

    def make() -> tuple[Tensor, Tensor]:
        words = counted_keys(batch, Kind.ENCODER)
        rank = torch.where(words, ranks.to(words.device)[batch.source], -1)
        rarest = rank.amax(-1, keepdim=True)
        second = torch.where(rank < rarest, rank, -1).amax(-1, keepdim=True)
        places = torch.stack([rank == rarest, (rank == rarest) | (rank == second)], dim=1)
        return places & words[:, None], words & (rarest >= OUTSIDE_TOP)

    return once(tape, (_rare, id(ranks)), make)


def ranks_in(batches: Iterable[Batch]) -> Int[Tensor, " vocabulary"]:
    """Frequency rank of every source token by its count in these batches, 0 the most frequent."""
    batches = list(batches)
    rows = [batch.source[batch.source_mask & ~batch.source_boundary].tolist() for batch in batches]
    return frequency_ranks(rows, max(int(batch.source.max()) for batch in batches) + 1)
