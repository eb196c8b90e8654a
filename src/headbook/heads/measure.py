"""A measure of heads: a ratio of sums over tokens, streamed, with its own bootstrap."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from headbook.heads.bootstrap import Resamples
from headbook.heads.recording import Recording, once
from headbook.models.capture import Point
from headbook.text.batches import Batch
from headbook.types import Kind, UserError

REPLICATES = 200
"""Bootstrap replicates: the ends of a 95 % interval then wander by about 7 % of its width."""


class Selection(StrEnum):
    """Sentences on which the best of several is chosen and on which it is scored."""

    HALVES = "halves"
    """Chosen on one half of the sentences, scored on the other: no gain by luck."""
    EVERYTHING = "everything"
    """Chosen and scored on all sentences, as the paper does."""


@dataclass(frozen=True)
class RatioSums:
    """Sums whose quotient is the measure, for each half of the sentences and each replicate.

    Both are float64 of shape [half, 1 + replicates, *shape]; the shapes may differ where they
    broadcast. Replicate 0 is the plain sum.
    """

    numerator: Float[Tensor, "half=2 replicate ..."]
    denominator: Float[Tensor, "half=2 replicate ..."]

    @classmethod
    def over(
        cls,
        numerator: Float[Tensor, "batch ..."],
        denominator: Float[Tensor, "batch ..."],
        sentences: Int[Tensor, " batch"],
        replicates: int,
    ) -> "RatioSums":
        """The sums over one batch, from each sentence's own numerator and denominator."""
        resamples = Resamples.of(sentences, replicates)
        return cls(resamples.sums(numerator), resamples.sums(denominator))

    def replicates(self, half: int | None = None) -> Float[Tensor, "replicate ..."]:
        """The ratio in every replicate, on one half or on everything; NaN where nothing counted."""
        if half is None:
            return self.numerator.sum(0) / self.denominator.sum(0)
        return self.numerator[half] / self.denominator[half]

    def ratio(self, half: int | None = None) -> Float[Tensor, "*shape"]:
        """The measured ratio; NaN where no token counted."""
        return self.replicates(half)[0]

    def interval(
        self, level: float = 0.95, half: int | None = None
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """The percentile interval over sentences, without replicates in which nothing counted."""
        return percentiles(self.replicates(half)[1:], level)


def percentiles(
    replicates: Float[Tensor, "replicate ..."], level: float = 0.95
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """(low, high) of bootstrap replicates, NaN left out; UserError where there are none."""
    if not len(replicates):
        raise UserError("interval: the measure keeps no bootstrap replicates; give it some")
    tail = (1 - level) / 2
    low, high = torch.nanquantile(replicates, replicates.new_tensor([tail, 1 - tail]), dim=0)
    return low, high


class HeadMeasure(Metric):
    """A ratio of sums over tokens for every head, accumulated batch by batch.

    A subclass says in `contributions` what one sentence adds to the numerator and denominator. The
    memory is that of `RatioSums`, whatever the number of sentences. Splitting or permuting batches
    and padding them more changes nothing but the last bits of a float64 sum.

    NaN means that no token counted; it is never turned into 0.
    """

    full_state_update = False
    point = Point.WEIGHTS
    """Recorded points that the measure reads."""

    def __init__(self, kind: Kind, replicates: int = REPLICATES) -> None:
        super().__init__()
        self.kind = kind
        self.replicates = replicates
        for name in ("numerator", "denominator"):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def contributions(self, tape: Recording, batch: Batch) -> tuple[Tensor, Tensor]:
        """Each sentence's contribution: numerator and denominator, [batch, *shape] each, finite."""
        raise NotImplementedError

    def update(self, tape: Recording, batch: Batch) -> None:
        numerator, denominator = self.contributions(tape, batch)
        resamples = once(
            tape,
            (Resamples, self.replicates),
            lambda: Resamples.of(batch.sentences, self.replicates),
        )
        # Not in place: a sum made under inference mode could not be added to outside it.
        self.numerator = self.numerator + resamples.sums(numerator)
        self.denominator = self.denominator + resamples.sums(denominator)

    def compute(self) -> Float[Tensor, "*shape"]:
        return self.sums().ratio()

    def sums(self) -> RatioSums:
        """The accumulated sums; UserError where no batch was measured."""
        if not self.update_called:
            raise UserError(f"{type(self).__name__}: no batch was measured; update it first")
        return RatioSums(self.numerator, self.denominator)

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """Percentile bootstrap over sentences: (low, high)."""
        return self.sums().interval(level)


@dataclass(frozen=True)
class Best:
    """The best of several candidates, for each of the remaining cells.

    `index` is −1 where every candidate was NaN. `chosen` is its score where it was chosen, `score`
    where it was scored, with the interval there; the gap between the two is the gain by luck.
    """

    index: Int[Tensor, "*rest"]
    chosen: Float[Tensor, "*rest"]
    score: Float[Tensor, "*rest"]
    low: Float[Tensor, "*rest"]
    high: Float[Tensor, "*rest"]


@dataclass(frozen=True)
class BestHead:
    """The best head, as `Best`; layer and head count from zero and are −1 where nothing counted."""

    layer: Int[Tensor, "*rest"]
    head: Int[Tensor, "*rest"]
    chosen: Float[Tensor, "*rest"]
    score: Float[Tensor, "*rest"]
    low: Float[Tensor, "*rest"]
    high: Float[Tensor, "*rest"]


def best_head(sums: RatioSums, selection: Selection = Selection.HALVES) -> BestHead:
    """The head with the largest value, for each cell behind [layer, head]; ties go to the first."""
    heads = sums.ratio().shape[1]
    best = best_of(sums, lambda values: values.flatten(0, 1), selection)
    found = best.index >= 0
    return BestHead(
        layer=torch.where(found, best.index // heads, -1),
        head=torch.where(found, best.index % heads, -1),
        **{name: getattr(best, name) for name in ("chosen", "score", "low", "high")},
    )


def best_of(
    sums: RatioSums,
    candidates_first: Callable[[Tensor], Tensor],
    selection: Selection = Selection.HALVES,
) -> Best:
    """The largest value along the first axis of `candidates_first(values)`."""
    choose_on, score_on = (0, 1) if selection is Selection.HALVES else (None, None)
    chosen = candidates_first(sums.ratio(choose_on))
    index = chosen.nan_to_num(nan=-torch.inf).argmax(0, keepdim=True)
    scored = (sums.ratio(score_on), *sums.interval(half=score_on))
    values = [chosen, *map(candidates_first, scored)]
    picked = [each.gather(0, index).squeeze(0) for each in values]
    nothing = chosen.isnan().all(0)
    return Best(torch.where(nothing, -1, index.squeeze(0)), *picked)
