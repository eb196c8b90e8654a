"""What a measure of heads is: a function that counts in every sentence, and the ratio of its sums.

A measure takes the recording of a batch and the batch, and gives for each sentence a numerator and
a denominator, [batch, layer, head, ...] and a shape that broadcasts to it; both finite. Splitting,
permuting or padding batches changes nothing but the last bits of a sum.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.bootstrap import Resamples
from headbook.heads.recording import Recording
from headbook.text.batches import Batch
from headbook.types import UserError

REPLICATES = 200
"""Bootstrap replicates: the ends of a 95 % interval then wander by about 7 % of its width."""

Measure = Callable[[Recording, Batch], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class RatioSums:
    """Sums whose quotient is the measure, for each half of the sentences and each replicate.

    Both are float64 of shape [half, 1 + replicates, *shape]; the shapes may differ where they
    broadcast. Replicate 0 is the plain sum. NaN means that nothing counted, and is never made 0.
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
        """The sums over some sentences, from each one's own numerator and denominator."""
        resamples = Resamples.of(sentences, replicates)
        return cls(resamples.sums(numerator), resamples.sums(denominator))

    def __add__(self, other: "RatioSums") -> "RatioSums":
        return RatioSums(self.numerator + other.numerator, self.denominator + other.denominator)

    @property
    def there(self) -> Bool[Tensor, "layer head"]:
        """The heads that there are: layers may differ in their number, see `layer_sums`."""
        found = ~self.numerator[0, 0].isnan()
        return found.flatten(2).any(-1) if found.ndim > 2 else found

    def __getitem__(self, cell: int) -> "RatioSums":
        return RatioSums(self.numerator[..., cell], self.denominator[..., cell])

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
        """Percentile bootstrap over sentences, (low, high), without replicates in which nothing
        counted; UserError where there are none."""
        drawn, tail = self.replicates(half)[1:], (1 - level) / 2
        if not len(drawn):
            raise UserError("interval: the measure keeps no bootstrap replicates; give it some")
        low, high = torch.nanquantile(drawn, drawn.new_tensor([tail, 1 - tail]), dim=0)
        return low, high


@dataclass(frozen=True)
class Difference(RatioSums):
    """A ratio less another of the same sentences: their resamples are shared, so that its interval
    is a paired one."""

    less: RatioSums

    def __getitem__(self, cell: int) -> "Difference":
        own = super().__getitem__(cell)
        return Difference(own.numerator, own.denominator, self.less[cell])

    def replicates(self, half: int | None = None) -> Float[Tensor, "replicate ..."]:
        """The difference in every replicate; NaN where nothing counted for either."""
        return super().replicates(half) - self.less.replicates(half)


def largest(values: Float[Tensor, "..."], dim: int) -> Float[Tensor, "..."]:
    """The largest along an axis, NaN left out; NaN where there is nothing else."""
    found = values.nan_to_num(nan=-torch.inf).amax(dim)
    return found.masked_fill(values.isnan().all(dim), torch.nan)


@torch.inference_mode()
def sums(
    measures: Mapping[str, Measure],
    recordings: Iterable[tuple[Recording, Batch]],
    replicates: int = REPLICATES,
) -> dict[str, RatioSums]:
    """The measures over a text, on the CPU wherever the model runs; memory does not grow with its
    sentences. See `recordings`."""
    found: dict[str, RatioSums] = {}
    for tape, batch in recordings:
        drawn = Resamples.of(batch.sentences, replicates)
        for name, measure in measures.items():
            seen = RatioSums(*map(drawn.sums, measure(tape, batch)))
            found[name] = found[name] + seen if name in found else seen
    return {name: RatioSums(one.numerator.cpu(), one.denominator.cpu())
            for name, one in found.items()}  # fmt: skip


@torch.inference_mode()
def counts(
    measures: Mapping[str, Measure], recordings: Iterable[tuple[Recording, Batch]]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What the measures count in every sentence of a text: numerators and denominators,
    [sentence, ...] each, in the order of the sentences' numbers."""
    order, rows = [], {name: ([], []) for name in measures}
    for tape, batch in recordings:
        order += batch.sentences.tolist()
        for name, measure in measures.items():
            for kept, part in zip(rows[name], measure(tape, batch), strict=True):
                kept.extend(part.cpu().numpy())
    places = np.argsort(order)
    return {name: tuple(np.stack(part)[places] for part in both) for name, both in rows.items()}
