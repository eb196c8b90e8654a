"""What probes read off attention: heads of words, relations, parts of speech (page 54).

Every probe that Clark et al. (2019, section 5) compare, with the control task of Hewitt and Liang
(2019), of one network's weights and of weights drawn anew. Three texts of 400 scored sentences took
twenty minutes per released model on one core.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from headbook.experiments import head_probe as of_heads
from headbook.experiments.head_probe import asking, both_ways, distances, hits
from headbook.experiments.word_maps import WordMaps
from headbook.layers import probe as linear
from headbook.looking.text import text
from headbook.statistics import Replicates, resampled_ratio, spread
from headbook.text.trees import Tree

FITTED_ON = {"ud-ewt": "ud-ewt", "ud-pud-en": "ud-ewt"}
"""Texts whose probes are fitted on the training part of a treebank; others are divided."""
DIMENSIONS = 32
"""Principal components of the word vectors that the probe of heads reads."""
RELEASED, REDRAWN, NONE = "released", "drawn anew", "none"
TASK, CONTROL = "task", "control task"
WEIGHTS, BOTH = "weights", "weights + words"
OFFSETS = (-3, -2, -1, 1, 2, 3, 4)


class Sample(NamedTuple):
    """Trees, and which of them probes are fitted, chosen and scored on."""

    trees: list[Tree]
    split: linear.Split

    def parts(self, of: Sequence[Tensor], control: bool = False) -> list[of_heads.Questions]:
        """The questions of each part, `of` being features of every tree."""
        return [
            of_heads.questions([of[at] for at in part], [self.trees[at] for at in part], control)
            for part in vars(self.split).values()
        ]

    def relations(self, part: str) -> np.ndarray:
        """The relation of every question of a part, fitted or scored."""
        trees = [self.trees[at] for at in getattr(self.split, part)]
        return np.array([tree.relations[word] for tree in trees for word in asking(tree)])


def sample(name: str, sentences: int) -> Sample:
    """`sentences` of a text, a third of them scored; as many again, twice, to fit on where the
    text's treebank has a training part. UserError for a text without trees."""
    if name not in FITTED_ON:
        trees = usable(text(name).trees, sentences)
        return Sample(trees, linear.divided(len(trees), len(trees) // 3))
    fitted = usable(text(FITTED_ON[name], parts=["train"]).trees, 2 * sentences)
    scored = usable(text(name, parts=["test"]).trees, sentences)
    return Sample(fitted + scored, linear.divided(len(fitted + scored), len(scored)))


def usable(trees: Sequence[Tree], count: int) -> list[Tree]:
    """`count` tagged trees of 3 to 60 words, in which a word asks, from all over a text."""
    return spread([t for t in trees if 3 <= len(t) <= 60 and t.tags and asking(t)], count)


class Found(NamedTuple):
    """Accuracy of one probe, with resamples over the scored sentences."""

    target: str
    features: str
    weights: str
    task: str
    replicates: Replicates


def over(sentence: Tensor, right: Tensor, counted: Tensor | None = None) -> Replicates:
    """Share of the questions, or of those counted, with resamples over sentences."""
    counted = torch.ones_like(right) if counted is None else counted.to(right)
    sums = [torch.bincount(sentence, each) for each in (right * counted, counted)]
    return resampled_ratio(*(each.numpy() for each in sums), seed=0)


def heads(
    of: Sample, maps: Sequence[WordMaps], drawn: Sequence[WordMaps], whole: bool
) -> Iterator[Found]:
    """Probes of heads of words; if `whole` also words, control tasks, and the maps `drawn` anew."""
    maps_of = [both_ways(each.weights) for each in maps]
    parts, apart = of.parts(maps_of), of.parts([distances(len(tree)) for tree in of.trees])
    fitted, _, scored = parts

    def found(features: str, weights: str, right: Tensor, task: str = TASK) -> Found:
        return Found("head", features, weights, task, over(scored.sentence, right))

    step = max(OFFSETS, key=lambda each: float(fitted.at(each).mean()))
    best = fitted.by_feature().mean(0).argmax()
    yield found("next word", NONE, scored.at(1))
    yield found("best offset", NONE, scored.at(step))
    yield found("best single head", RELEASED, scored.hits(scored.features[:, best]))
    yield found(WEIGHTS, RELEASED, hits(parts))
    yield found("distance", NONE, hits(apart))
    if not whole:
        return
    vectors = reduced(of, maps)
    words = [torch.cat([vectors[at] for at in part]) for part in vars(of.split).values()]
    control = of.parts(maps_of, control=True)
    others = of.parts([both_ways(each.weights) for each in drawn])
    yield found(WEIGHTS, RELEASED, hits(control), CONTROL)
    yield found(BOTH, RELEASED, hits(control, words), CONTROL)
    yield found(BOTH, RELEASED, hits(parts, words))
    yield found("distance + words", NONE, hits(apart, words))
    yield found(WEIGHTS, REDRAWN, hits(others))
    yield found(BOTH, REDRAWN, hits(others, words))


def reduced(of: Sample, maps: Sequence[WordMaps]) -> list[Tensor]:
    """Principal components of the word vectors, of spread one, by the fitted sentences."""
    fitted = torch.cat([maps[at].vectors for at in of.split.fitted]).numpy()
    count = min(DIMENSIONS, *fitted.shape)
    components = PCA(count, whiten=True, svd_solver="full").fit(fitted)
    return [torch.from_numpy(components.transform(each.vectors.numpy())).float() for each in maps]
