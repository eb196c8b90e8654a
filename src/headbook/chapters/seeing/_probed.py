"""Probes of attention for page 54: who is whose head, relations, parts of speech."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from headbook.heads.head_probe import (
    HeadProbe,
    Pairs,
    both_ways,
    chosen,
    column_hits,
    control_heads,
    distances,
    offset_hits,
    pairs,
)
from headbook.heads.word_features import word_features
from headbook.layers.probe import Split, control, divided, hits, majority
from headbook.looking.states import WordMaps
from headbook.looking.text import text
from headbook.statistics import Replicates, resampled_ratio
from headbook.trees import ROOT, Tree
from headbook.types import UserError

Item = TypeVar("Item")

FITTED_ON = {"ud-ewt": "ud-ewt", "ud-pud-en": "ud-ewt"}
"""Texts whose probes are fitted on the training part of a treebank; others are divided."""
SHORTEST, LONGEST = 3, 60
"""In words: a shorter sentence has nothing to choose from, a longer one is rarely one sentence."""
PENALTIES = (1e-3, 1e-2)
DIMENSIONS = 32
"""Principal components of the word vectors that the probe of heads reads."""
RELEASED, REDRAWN, NO_WEIGHTS = "released", "drawn anew", ""
TASK, CONTROL = "task", "control task"
HEAD, RELATION, TAG = "head", "relation", "part of speech"


@dataclass(frozen=True)
class Sample:
    """Trees, and which of them probes are fitted, chosen and scored on."""

    name: str
    trees: list[Tree]
    split: Split

    @cached_property
    def asking(self) -> list[list[int]]:
        """The words that ask for their head, per tree."""
        return [asking(tree) for tree in self.trees]

    @property
    def forms(self) -> list[list[str]]:
        return [[form.lower() for form in tree.forms] for tree in self.trees]


def asking(tree: Tree) -> list[int]:
    """The words that have a head and are no punctuation."""
    ends = enumerate(zip(tree.heads, tree.relations, strict=True))
    return [word for word, (head, relation) in ends if head != ROOT and relation != "punct"]


def sample(name: str, sentences: int) -> Sample:
    """So many sentences of a text, a third of them scored; as many again, twice, to fit on where
    the text's treebank has a training part. UserError for a text without trees."""
    if name not in FITTED_ON:
        trees = spread(usable(text(name).trees, name), sentences)
        return Sample(name, trees, divided(len(trees), len(trees) // 3))
    fitted = spread(usable(text(FITTED_ON[name], parts=["train"]).trees, name), 2 * sentences)
    scored = spread(usable(text(name, parts=["test"]).trees, name), sentences)
    return Sample(name, fitted + scored, divided(len(fitted + scored), len(scored)))


def usable(trees: Sequence[Tree], name: str) -> list[Tree]:
    """Trees of usable length in which a word asks and all words are tagged."""
    found = [
        tree for tree in trees if SHORTEST <= len(tree) <= LONGEST and tree.tags and asking(tree)
    ]
    if not found:
        raise UserError(f"{name} has no tagged trees: name a treebank")
    return found


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """As many from all over a text, as its parts are of several kinds."""
    places = np.linspace(0, len(items) - 1, min(count, len(items))).astype(int)
    return [items[place] for place in places]


@dataclass(frozen=True)
class Found:
    """Accuracy of one probe, with resamples over the scored sentences."""

    target: str
    features: str
    weights: str
    task: str
    replicates: Replicates


Known = dict[tuple[bool, bool, str], HeadProbe]
"""Probes fitted before, of distances or weights, with words or without, by task."""


class HeadProbes:
    """Probes that find heads of words, on the weights of one network.

    `known` are those of the same network on the same fitted sentences, and is added to.
    """

    def __init__(
        self, of: Sample, maps: Sequence[WordMaps], vectors: Sequence[Tensor], known: Known
    ) -> None:
        self.of, self.maps, self.known = of, maps, known
        parts = (of.split.fitted, of.split.chosen, of.split.scored)
        self.vectors = [torch.cat([vectors[at] for at in part]) for part in parts]
        self.pairs = [self._pairs(part, lambda at: both_ways(maps[at].weights)) for part in parts]

    def _pairs(self, part: np.ndarray, features: Callable[[int], Tensor]) -> Pairs:
        trees, asking = self.of.trees, self.of.asking
        heads = [[trees[at].heads[word] for word in asking[at]] for at in part]
        return pairs([features(at) for at in part], [asking[at] for at in part], heads)

    @cached_property
    def apart(self) -> list[Pairs]:
        """The same pairs with the distance of their words for features."""
        parts = (self.of.split.fitted, self.of.split.chosen, self.of.split.scored)
        return [self._pairs(part, lambda at: distances(len(self.of.trees[at]))) for part in parts]

    def probe(self, of_distance: bool, words: bool, task: str) -> Replicates:
        """Accuracy of a probe of weights or distances, with word vectors or without."""
        features = self.apart if of_distance else self.pairs
        given = features if task == TASK else self._controlled(features)
        vectors = self.vectors if words else [None] * 3
        name = of_distance, words, task
        if name not in self.known:
            self.known[name] = chosen(given[0], given[1], vectors[:2], PENALTIES)
        return self.over(self.known[name].hits(given[2], vectors[2]))

    def _controlled(self, features: list[Pairs]) -> list[Pairs]:
        parts = (self.of.split.fitted, self.of.split.chosen, self.of.split.scored)
        forms, asking = self.of.forms, self.of.asking
        return [
            each.answered(control_heads([forms[at] for at in part], [asking[at] for at in part]))
            for each, part in zip(features, parts, strict=True)
        ]

    def over(self, right: Tensor, counted: Tensor | None = None) -> Replicates:
        """Share of the scored questions, or of those counted, with resamples over sentences."""
        sentence, size = self.pairs[2].sentence, len(self.of.split.scored)
        counted = torch.ones_like(right) if counted is None else counted.float()
        sums = [torch.bincount(sentence, each, size) for each in (right * counted, counted)]
        return resampled_ratio(*(each.numpy() for each in sums), seed=0)

    @cached_property
    def by_head(self) -> tuple[Tensor, Tensor]:
        """Hits of every head, from the word and back, [question, feature]: fitted and scored."""
        return column_hits(self.pairs[0]), column_hits(self.pairs[2])

    def offset(self, part: int, step: int) -> Tensor:
        """1 where the head is so many words on, on the fitted (0) or scored (2) questions."""
        return offset_hits(self.pairs[part], step)

    def relations(self, part: int) -> np.ndarray:
        """The relation of every question, fitted (0) or scored (2)."""
        places = (self.of.split.fitted, self.of.split.chosen, self.of.split.scored)[part]
        return np.array([self.of.trees[at].relations[word]
                         for at in places for word in self.of.asking[at]])  # fmt: skip


def label_probes(
    of: Sample, maps: Sequence[WordMaps], vectors: Sequence[Tensor], weights: str, *, whole: bool
) -> Iterator[Found]:
    """Relations from the weights on each arc, parts of speech from a summary of each word's rows.

    With word vectors too where `whole`, which also gives the most frequent label and control tasks.
    """
    arcs = [[(word, of.trees[at].heads[word]) for word in words]
            for at, words in enumerate(of.asking)]  # fmt: skip
    ends = [torch.tensor(each).T for each in arcs]
    on_arc = [both_ways(m.weights)[:, a, b].T for m, (a, b) in zip(maps, ends, strict=True)]
    of_both = [torch.cat([v[a], v[b]], 1) for v, (a, b) in zip(vectors, ends, strict=True)]
    relations = [[t.relations[word].partition(":")[0] for word in words]
                 for t, words in zip(of.trees, of.asking, strict=True)]  # fmt: skip
    types = [[forms[word] for word in words]
             for forms, words in zip(of.forms, of.asking, strict=True)]  # fmt: skip
    yield from _labels(RELATION, of, on_arc, of_both, relations, types, weights, whole)
    rows = [word_features(each.weights, each.special) for each in maps]
    tags = [tree.tags for tree in of.trees]
    yield from _labels(TAG, of, rows, vectors, tags, of.forms, weights, whole)


def _labels(
    target: str, of: Sample, maps: Sequence[Tensor], words: Sequence[Tensor],
    labels: Sequence[Sequence[str]], types: Sequence[Sequence[str]], weights: str, whole: bool,
) -> Iterator[Found]:  # fmt: skip
    groups = np.repeat(np.arange(len(labels)), [len(each) for each in labels])
    split = of.split.of(groups)
    right = np.array([label for each in labels for label in each])
    given = {"weights": torch.cat(list(maps)).numpy()}
    if whole:
        given["words"] = torch.cat(list(words)).numpy()
        given["weights + words"] = np.concatenate(list(given.values()), axis=1)

    def found(features: str, shown: str, task: str, hit: np.ndarray) -> Found:
        size = len(of.trees)
        sums = [np.bincount(groups[split.scored], each, size)[of.split.scored]
                for each in (hit, np.ones_like(hit))]  # fmt: skip
        return Found(target, features, shown, task, resampled_ratio(*sums, seed=0))

    if whole:
        yield found("most frequent", NO_WEIGHTS, TASK, majority(right, split))
    drawn = control([form for each in types for form in each], right)
    for features, values in given.items():
        shown = NO_WEIGHTS if features == "words" else weights
        yield found(features, shown, TASK, hits(values, right, split))
        if whole:
            yield found(features, shown, CONTROL, hits(values, drawn, split))


def reduced(of: Sample, maps: Sequence[WordMaps]) -> list[Tensor]:
    """Principal components of the word vectors, of spread one, by the fitted sentences."""
    fitted = torch.cat([maps[at].vectors for at in of.split.fitted]).numpy()
    count = min(DIMENSIONS, *fitted.shape)
    components = PCA(count, whiten=True, svd_solver="full").fit(fitted)
    return [torch.from_numpy(components.transform(each.vectors.numpy())).float() for each in maps]
