"""The language models that stand beside a translation model, and what of them is compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headbook.artefacts.encoders import EncoderRun, Objective
from headbook.artefacts.model import ModelRun


@dataclass(frozen=True)
class LayerSample:
    """Which seeds of each model are compared, layer by layer, and on how much training text.

    Voita, Sennrich and Titov: 1,000 tokens, each 1,000 times or more, and 10,000 clusters.
    """

    sentences: int = 20_000
    kinds: int = 100  # most frequent tokens, for mutual information
    occurrences: int = 300  # of each of them, at most
    clusters: int = 300
    compared: int = 10_000  # tokens on which representations are compared
    copies: int = 2  # of each sentence, with other tokens masked
    seeds: tuple[int, ...] = (0, 1)

    def of(self, sentences: int | None) -> "LayerSample":
        """With another number of sentences, where one is given."""
        return self if sentences is None else replace(self, sentences=sentences)


def encoder_runs(text: ModelRun, seeds: Sequence[int]) -> tuple[EncoderRun, ...]:
    """Left to right and masked, of each seed, trained as the translation model is.

    But without label smoothing; and whichever seed the translation model has, they are the same.
    """
    training = replace(text.training, label_smoothing=0.0)
    return tuple(
        EncoderRun(text.with_seed(0), objective, replace(training, seed=seed))
        for seed in seeds
        for objective in Objective
    )


SMOKE_SAMPLE = LayerSample(400, kinds=20, occurrences=40, clusters=40, compared=1_000)
QUICK_SAMPLE = LayerSample(2_000, kinds=50, occurrences=100, clusters=100, compared=4_000)
