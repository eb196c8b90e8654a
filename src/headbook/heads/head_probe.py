"""A probe that finds each word's head among the other words of its sentence.

Clark et al. (2019, section 5): with weights α_k of head k, word i has head j with

    p(j | i) ∝ exp Σ_k (w_k α_k(i→j) + u_k α_k(j→i)),

and, with vectors v of the words, w_k and u_k are linear in v_i and v_j. The score is linear in all
parameters, so the loss is convex. Distances between the words take the place of the weights in the
baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.statistics import of_type
from headbook.types import UserError

ITERATIONS = 60
FAR = 10
"""Distances beyond it are one."""


@dataclass(frozen=True)
class Pairs:
    """Every asking word with every word it may choose, and the word that is right.

    `features` are of the pair, `asking` and `candidate` rows in the words' vectors; the pairs of a
    question fill a row of a matrix at `question` and `place`.
    """

    features: Float[Tensor, "pair feature"]
    question: Int[Tensor, " pair"]
    place: Int[Tensor, " pair"]
    asking: Int[Tensor, " pair"]
    candidate: Int[Tensor, " pair"]
    right: Int[Tensor, " question"]
    sentence: Int[Tensor, " question"]

    def matrix(self, scores: Float[Tensor, " pair"]) -> Float[Tensor, "question place"]:
        """The scores by question, -inf where there is no candidate."""
        shape = len(self.right), int(self.place.max()) + 1
        return scores.new_full(shape, -torch.inf).index_put((self.question, self.place), scores)

    def answered(self, heads: Sequence[Sequence[int]]) -> "Pairs":
        """The same with other answers: a word's index per sentence and asking word, in order."""
        return replace(self, right=torch.tensor([head for row in heads for head in row]))


def pairs(
    features: Sequence[Float[Tensor, "_ _ _"]],
    asking: Sequence[Sequence[int]],
    heads: Sequence[Sequence[int]],
) -> Pairs:
    """Of every sentence: features [feature query key], the words that ask, and the head of each.

    A word never chooses itself. UserError where no word asks.
    """
    found: list[tuple[Tensor, ...]] = []
    first = question = 0
    for each, words in zip(features, asking, strict=True):
        count = each.shape[-1]
        own = torch.tensor(list(words), dtype=torch.long)
        others = torch.arange(count) != own[:, None]
        row, place = others.nonzero(as_tuple=True)
        query = own[row]
        found.append((each[:, query, place].T, question + row, place, first + query, first + place))
        first, question = first + count, question + len(own)
    if not question:
        raise UserError("no word has a head in these sentences; use a text with trees")
    right = torch.tensor([head for row in heads for head in row])
    sentence = torch.arange(len(asking)).repeat_interleave(torch.tensor([len(a) for a in asking]))
    joined = [torch.cat(each) for each in zip(*found, strict=True)]
    return Pairs(*joined, right=right, sentence=sentence)


def control_heads(
    forms: Sequence[Sequence[str]], asking: Sequence[Sequence[int]], seed: int = 0
) -> list[list[int]]:
    """Hewitt and Liang's control task: every word type has a place at random to find its head at.

    The first word of the sentence, the last, or the next; their third place is the word itself,
    which is no candidate here. A word that stands there itself has its neighbour.
    """
    return [
        [_place(int(3 * of_type(words[word], seed)), word, len(words)) for word in own]
        for words, own in zip(forms, asking, strict=True)
    ]


def _place(behaviour: int, word: int, count: int) -> int:
    wanted = (0, count - 1, word + 1)[behaviour]
    if 0 <= wanted < count and wanted != word:
        return wanted
    return word + 1 if word == 0 else word - 1


def both_ways(weights: Float[Tensor, "head word word"]) -> Float[Tensor, "feature word word"]:
    """Weights from the asking word to the candidate, and back."""
    return torch.cat([weights, weights.mT])


def distances(count: int) -> Float[Tensor, "feature word word"]:
    """Side, nearness and adjacency of the candidate, seen from the asking word."""
    offset = (torch.arange(count) - torch.arange(count)[:, None]).clamp(-FAR, FAR).float()
    steps = [(offset == step).float() for step in (-3, -2, -1, 1, 2, 3)]
    sides = [(offset < 0).float(), (offset > 0).float()]
    near = [side / offset.abs().clamp(min=1) for side in sides]
    return torch.stack([*steps, *sides, *near])


@dataclass(frozen=True)
class HeadProbe:
    """Fitted weights: [feature], and with vectors [2 model, feature] for both words of a pair."""

    scale: Float[Tensor, " feature"]
    weights: tuple[Tensor, ...]

    def hits(self, given: Pairs, vectors: Tensor | None = None) -> Float[Tensor, " question"]:
        """1 where the highest score is the right word's; a tie is none."""
        scores = _scores(given.features / self.scale, _ends(given, vectors), self.weights)
        return _right(given, given.matrix(scores))


def fit(given: Pairs, vectors: Float[Tensor, "word model"] | None, penalty: float) -> HeadProbe:
    """Least cross-entropy plus penalty · Σ weights², by L-BFGS; features are scaled to spread 1."""
    scale = given.features.std(0).clamp(min=1e-6)
    scaled, ends = given.features / scale, _ends(given, vectors)
    count = scaled.shape[1]
    weights = [torch.zeros(count, requires_grad=True)]
    if ends is not None:
        weights.append(torch.zeros(ends.shape[1], count, requires_grad=True))
    optimiser = torch.optim.LBFGS(weights, max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = cross_entropy(given.matrix(_scores(scaled, ends, weights)), given.right)
        value = value + penalty * sum((each**2).sum() for each in weights)
        value.backward()
        return value

    optimiser.step(loss)
    return HeadProbe(scale, tuple(each.detach() for each in weights))


def chosen(
    given: Pairs, held: Pairs, vectors: Sequence[Tensor | None], penalties: Sequence[float]
) -> HeadProbe:
    """Fitted on `given` with the penalty that is best on `held`; vectors are those of each."""
    probes = [fit(given, vectors[0], penalty) for penalty in penalties]
    return max(probes, key=lambda probe: float(probe.hits(held, vectors[1]).mean()))


def column_hits(given: Pairs) -> Float[Tensor, "question feature"]:
    """1 where a single feature is largest at the right word; a tie is none."""
    return torch.stack([_right(given, given.matrix(each)) for each in given.features.T], dim=1)


def offset_hits(given: Pairs, step: int) -> Float[Tensor, " question"]:
    """1 where the right word stands `step` words behind the asking one."""
    there = given.candidate - given.asking == step
    right = there & (given.place == given.right[given.question])
    return torch.zeros(len(given.right)).index_add(0, given.question, right.float())


def _right(given: Pairs, scores: Float[Tensor, "question place"]) -> Float[Tensor, " question"]:
    top, place = scores.max(1)
    alone = (scores == top[:, None]).sum(1) == 1
    return (alone & (place == given.right)).float()


def _ends(given: Pairs, vectors: Tensor | None) -> Float[Tensor, "pair ends"] | None:
    """The vectors of both words of every pair."""
    if vectors is None:
        return None
    return torch.cat([vectors[given.asking], vectors[given.candidate]], dim=1)


def _scores(
    scaled: Tensor, ends: Tensor | None, weights: Sequence[Tensor]
) -> Float[Tensor, " pair"]:
    alone = scaled @ weights[0]
    return alone if ends is None else alone + ((scaled @ weights[1].T) * ends).sum(1)
