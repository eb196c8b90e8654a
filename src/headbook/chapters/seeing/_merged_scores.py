"""What sharing maps or removing heads does to a model's own task: BLEU, or finding paraphrases."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from headbook.chapters.seeing._merging import ALIKE, ANY, RANDOM, REDUNDANT, settings
from headbook.chapters.seeing._properties import nearest, paraphrases
from headbook.corpora.registry import registry
from headbook.heads.head_distance import Distances
from headbook.looking.text import text
from headbook.models.loaded import Loaded, pooled
from headbook.statistics import resampled_mean
from headbook.training.paired import Statistics, corpus_bleu, paired, statistics
from headbook.types import HeadId

WHOLE = "whole model"
WAYS = (ALIKE, RANDOM, REDUNDANT, ANY)
BLEU, PARAPHRASES = "BLEU", "paraphrases found"
TREEBANK = "ud-pud-{}"
"""The same sentences in several languages."""


def scores(
    model: Loaded, heads: Sequence[HeadId], distances: Distances, merges: int, draws: int,
    sentences: int,
) -> pd.DataFrame:  # fmt: skip
    """One row per way and draw, the whole model first, with so many maps saved.

    A translator between two languages of PUD has BLEU on so many of its sentences, any other model
    the share of so many paraphrases whose other half is nearest (page 55). `change` is against the
    whole model, with a 95 % interval by bootstrap over sentences.
    """
    task = (Translating if translates(model) else Finding)(model, sentences)
    whole = task.read()
    rows = [{"way": WHOLE, "saved": 0, "draw": 0, "value": task.score(whole)}]
    unranked = np.zeros(len(heads))  # None of WAYS ranks heads by importance.
    for way, count, draw, intervention in settings(model.network, heads, distances, unranked,
                                                   [merges], draws):  # fmt: skip
        if way not in WAYS:
            continue
        with intervention():
            found = task.read()
        change, low, high = task.change(found, whole)
        rows.append({"way": way, "saved": count, "draw": draw, "value": task.score(found),
                     "change": change, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows).assign(score=task.name, tested=sentences)


def translates(model: Loaded) -> bool:
    """Whether it translates between two languages that PUD has."""
    return all(each and TREEBANK.format(each) in registry() for each in model.languages)


@dataclass(frozen=True)
class Translating:
    """Cased BLEU of greedy translations of the first sentences of PUD."""

    model: Loaded
    sentences: int
    name: str = BLEU

    def read(self) -> Statistics:
        sources, references = (list(text(TREEBANK.format(each)).sentences[: self.sentences])
                               for each in self.model.languages)  # fmt: skip
        return statistics(self.model.translate(sources), references)

    def score(self, found: Statistics) -> float:
        return corpus_bleu(found)

    def change(self, found: Statistics, whole: Statistics) -> tuple[float, float, float]:
        both = paired(found, whole)
        return both.difference, both.low, both.high


@dataclass(frozen=True)
class Finding:
    """Share of pairs whose other sentence is nearest, by the mean of the encoder's last states."""

    model: Loaded
    sentences: int
    name: str = PARAPHRASES

    def read(self) -> Float[np.ndarray, " pair"]:
        pairs = paraphrases()[: self.sentences]
        return nearest(*(self._vectors([pair[side] for pair in pairs]) for side in (0, 1)))

    def score(self, found: Float[np.ndarray, " pair"]) -> float:
        return float(found.mean())

    def change(self, found: np.ndarray, whole: np.ndarray) -> tuple[float, float, float]:
        return float((found - whole).mean()), *resampled_mean(found - whole, seed=0)

    @torch.no_grad()
    def _vectors(self, sentences: Sequence[str]) -> Float[torch.Tensor, "sentence model"]:
        found: dict[int, torch.Tensor] = {}
        for batch in self.model.batches(sentences):
            vectors = pooled(self.model.encoded(batch), batch.source_mask)
            found |= dict(zip(batch.sentences.tolist(), vectors, strict=True))
        return torch.stack([found[row] for row in range(len(sentences))])
