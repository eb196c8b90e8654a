"""Rival explanations of a rare-word head: place, and length of sentence or piece.

Sentences are split by each of them. A head that follows rarity keeps its lead over chance in every
part; one that looks at a fixed place, or at long pieces, keeps it in one part only.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.artefacts.heads import BATCH_TOKENS, encoded
from headbook.artefacts.model import TrainedModel
from headbook.chapters.measurements import Measurement
from headbook.corpora.batches import Batch, EncodedPair, in_order
from headbook.corpora.subwords import SPACE, SPECIAL, frequency_ranks
from headbook.heads.collect import collect
from headbook.heads.measure import HeadMeasure, RatioSums, Recording
from headbook.heads.rare import OUTSIDE_TOP, RareChance, RareShare, rare_tokens

NAN = float("nan")
PLACE, LENGTH, PIECE = "where the rarest token stands", "length of the sentence", "longest piece"
GROUPS = (
    *((PLACE, third) for third in ("first third", "middle third", "last third")),
    *((LENGTH, third) for third in ("short", "middling", "long")),
    *((PIECE, which) for which in ("is the rarest", "is another")),
)
COLUMNS = ["model", "corpus", "target", "seed", "update", "text", "parser", "by", "group", "head",
           "value", "low", "high", "chance", "queries"]  # fmt: skip


def chosen_head(rare: RatioSums, layers: int | None = None) -> tuple[int, int] | None:
    """Layer and head, from zero, with the largest share at the two rarest on the first half.

    `layers` looks at the first so many; None where no sentence counted.
    """
    shares = rare.ratio(half=0)[:layers, :, 1]
    if shares.isnan().all():
        return None
    return divmod(int(shares.nan_to_num(nan=-1).argmax()), shares.shape[1])


def scored(
    sums: RatioSums, head: tuple[int, int] | None, column: int
) -> tuple[float, float, float]:
    """One head's share on the second half with its interval; NaN without a head."""
    if head is None:
        return NAN, NAN, NAN
    value, low, high = (each[*head, column] for each in (sums.ratio(1), *sums.interval(half=1)))
    return float(value), float(low), float(high)


class ByGroup(HeadMeasure):
    """The share at one of the two rarest in each group of sentences, [layer, head, group]."""

    def __init__(
        self, whole: RareShare, split: Callable[[Batch], Bool[Tensor, "batch group"]]
    ) -> None:
        super().__init__(whole.kind)
        self.whole = whole
        self.split = split

    def contributions(self, tape: Recording, batch: Batch) -> tuple[Tensor, Tensor]:
        hits, count = self.whole.contributions(tape, batch)
        groups = self.split(batch)[:, None, None].double()
        return hits[..., 1:] * groups, count * groups


def groups_of(
    batch: Batch,
    ranks: Int[Tensor, " vocabulary"],
    characters: Int[Tensor, " vocabulary"],
    edges: Sequence[int],
) -> Bool[Tensor, "batch group"]:
    """Which of GROUPS every sentence is in: one of each way of splitting.

    `edges` are the most tokens of a short and of a middling sentence. A rarest token that occurs
    twice stands where it first does.
    """
    real = batch.source_mask & ~batch.source_boundary
    words = real.sum(-1)
    rarest = rare_tokens(batch, ranks).places[:, 0]
    before = real & (rarest.cumsum(-1) == 0)
    place = (3 * before.sum(-1)).clamp(max=3 * words - 1).clamp(min=0) // words.clamp(min=1)
    length = torch.bucketize(words, torch.tensor(edges, device=words.device))
    widths = characters.to(words.device)[batch.source]
    longest = (rarest & (widths == widths.amax(-1, keepdim=True))).any(-1)
    kinds = ((place, 3), (length, 3), (1 - longest.long(), 2))
    return torch.cat([torch.nn.functional.one_hot(each, size) for each, size in kinds], -1).bool()


def rival_rows(measurement: Measurement) -> Iterator[dict[str, object]]:
    """The first layer's chosen head on the other half of each of GROUPS; nothing without a head."""
    head = chosen_head(measurement.sums["rare"], 1)
    if head is None:
        return
    share, chance = _by_group(measurement)
    for at, (by, group) in enumerate(GROUPS):
        value, low, high = scored(share, head, at)
        yield {
            **measurement.labels, "by": by, "group": group, "head": head[1] + 1, "value": value,
            "low": low, "high": high, "chance": scored(chance, (0, 0), at)[0],
            "queries": int(share.denominator[1, 0, 0, 0, at]),
        }  # fmt: skip


def _by_group(measurement: Measurement) -> tuple[RatioSums, RatioSums]:
    """The share of every head and of chance, [layer, head, group]."""
    trained = measurement.trained
    pairs, ranks = encoded(trained, measurement.text), piece_ranks(trained)
    characters, edges = piece_characters(trained), length_edges(pairs, ranks)
    measures = [
        ByGroup(rare(ranks), lambda batch: groups_of(batch, ranks, characters, edges))
        for rare in (RareShare, RareChance)
    ]
    collect(trained.model(), list(in_order(pairs, BATCH_TOKENS)), measures)
    return measures[0].sums(), measures[1].sums()


def piece_ranks(trained: TrainedModel) -> Int[Tensor, " vocabulary"]:
    """Frequency rank of every source piece on the training source, 0 the most frequent."""
    return frequency_ranks(trained.source.encode(trained.corpus.train.source), len(trained.source))


def piece_characters(trained: TrainedModel) -> Int[Tensor, " vocabulary"]:
    """Length of every source piece; reserved ids have none, so that EOS is never the longest."""
    names = trained.source.pieces(range(len(trained.source)))
    lengths = [len(name.lstrip(SPACE)) for name in names]
    return torch.tensor([0] * len(SPECIAL) + lengths[len(SPECIAL) :])


def length_edges(pairs: Sequence[EncodedPair], ranks: Int[Tensor, " vocabulary"]) -> list[int]:
    """Two lengths in tokens that cut the sentences which count into thirds about as large."""
    words = sorted(
        len(source) - 1 for source, _ in pairs if int(ranks[list(source)].amax()) >= OUTSIDE_TOP
    )
    return [words[len(words) // 3], words[2 * len(words) // 3]] if words else [0, 0]
