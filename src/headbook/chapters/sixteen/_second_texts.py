"""Other texts a model is tried on beside its test set, and whether its heads matter there alike."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headbook.artefacts.model import TrainedModel, corpus_of
from headbook.corpora.registry import registry
from headbook.runs.seeds import derived
from headbook.statistics import interval

ELSEWHERE = {"multi30k": ("tatoeba",), "tatoeba": ("multi30k", "msdocs"), "msdocs": ("tatoeba",)}
"""Texts of another kind for a corpus with one test set: the first there is."""
SAME, OTHER = "same kind", "another kind"
RESAMPLES = 2000


@dataclass(frozen=True)
class Text:
    """Sentences that are translated: a part of the model's own corpus, or of another one."""

    test: str
    corpus: str | None
    kind: str  # whether they are of the same kind as the model's own

    @property
    def name(self) -> str:
        return self.test if self.corpus is None else f"{self.corpus} {self.test}"


def other_texts(model: TrainedModel) -> Iterator[Text]:
    """The validation set, and a text of another kind where there is one in the same languages.

    That is the last of the corpus' other test sets, or else another corpus' primary one.
    """
    yield Text("valid", None, SAME)
    tests = list(model.corpus.tests)
    collection, _, target = model.run.corpus.rpartition("-")
    names = [f"{other}-{target}" for other in ELSEWHERE.get(collection, ())]
    known = [name for name in names if name in registry()]
    if len(tests) > 1:
        yield Text(tests[-1], None, OTHER)
    elif known:
        yield Text(next(iter(corpus_of(known[0], None).tests)), known[0], OTHER)


def correlation(
    one: Float[np.ndarray, " head"], other: Float[np.ndarray, " head"]
) -> tuple[float, float, float]:
    """Pearson's r and its 95 % interval by bootstrap over the heads; NaN where one is constant."""
    noise = np.random.default_rng(derived(0, "heads of a correlation"))
    drawn = noise.integers(len(one), size=(RESAMPLES, len(one)))
    r = _pearson(one[None], other[None])[0]
    if np.isnan(r):
        return (float("nan"),) * 3
    return interval(np.concatenate([[r], _pearson(one[drawn], other[drawn])]))


def _pearson(
    one: Float[np.ndarray, "row head"], other: Float[np.ndarray, "row head"]
) -> Float[np.ndarray, " row"]:
    """Of each row."""
    one, other = (each - each.mean(axis=1, keepdims=True) for each in (one, other))
    lengths = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    found = np.full(len(one), np.nan)
    return np.divide((one * other).sum(axis=1), lengths, out=found, where=lengths > 0)
