"""Probes that find each word's head among the other words of its sentence (page 54).

Clark et al. (2019, section 5): with weights α_k of head k, word i has head j with

    p(j | i) ∝ exp Σ_k (w_k α_k(i→j) + u_k α_k(j→i)),

and, with vectors v of the words, w_k and u_k are linear in v_i and v_j. The score is linear in all
parameters, so the loss is convex. Distances take the place of the weights in the baseline.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.statistics import of_type
from headbook.text.trees import ROOT, Tree

ITERATIONS, FAR, PENALTIES = 60, 10, (1e-3, 1e-2)
"""Of L-BFGS; distances beyond FAR are one; factors of Σ weights²."""


def asking(tree: Tree) -> list[int]:
    """The words that ask for their head: those that have one and are no punctuation."""
    ends = enumerate(zip(tree.heads, tree.relations, strict=True))
    return [word for word, (head, relation) in ends if head != ROOT and relation != "punct"]


class Questions(NamedTuple):
    """Every asking word with every other word of its sentence, and the one that is right.

    `features` are of the pair, `asking` and `candidate` rows in the words' vectors; the pairs of a
    question fill a row of a table at `question` and `place`.
    """

    features: Float[Tensor, "pair feature"]
    question: Int[Tensor, " pair"]
    place: Int[Tensor, " pair"]
    asking: Int[Tensor, " pair"]
    candidate: Int[Tensor, " pair"]
    right: Int[Tensor, " question"]
    sentence: Int[Tensor, " question"]

    def table(self, scores: Float[Tensor, " pair"]) -> Float[Tensor, "question place"]:
        """The scores by question, -inf where there is no candidate."""
        shape = len(self.right), int(self.place.max()) + 1
        return scores.new_full(shape, -torch.inf).index_put((self.question, self.place), scores)

    def hits(self, scores: Float[Tensor, " pair"]) -> Float[Tensor, " question"]:
        """1 where the highest score is the right word's; a tie is none."""
        table = self.table(scores)
        top, place = table.max(1)
        return ((table == top[:, None]).sum(1).eq(1) & (place == self.right)).float()

    def by_feature(self) -> Float[Tensor, "question feature"]:
        """1 where a single feature is largest at the right word."""
        return torch.stack([self.hits(each) for each in self.features.T], dim=1)

    def at(self, step: int) -> Float[Tensor, " question"]:
        """1 where the right word stands `step` words behind the asking one."""
        right = (self.candidate - self.asking == step) & (self.place == self.right[self.question])
        return torch.zeros(len(self.right)).index_add(0, self.question, right.float())


def questions(
    features: Sequence[Float[Tensor, "_ _ _"]], trees: Sequence[Tree], control: bool = False
) -> Questions:
    """Of trees and features [feature, word, candidate] of each; a word never chooses itself.
    In the `control` task of Hewitt and Liang (2019) the right words are those of `control_head`."""
    found, right, sentence, first, question = [], [], [], 0, 0
    for number, (each, tree) in enumerate(zip(features, trees, strict=True)):
        own, count = torch.tensor(asking(tree)), len(tree)
        row, place = (torch.arange(count) != own[:, None]).nonzero(as_tuple=True)
        query = own[row]
        found.append((each[:, query, place].T, question + row, place, first + query, first + place))
        right += [control_head(tree, at) if control else tree.heads[at] for at in own.tolist()]
        sentence += [number] * len(own)
        first, question = first + count, question + len(own)
    joined = [torch.cat(each) for each in zip(*found, strict=True)]
    return Questions(*joined, right=torch.tensor(right), sentence=torch.tensor(sentence))


def control_head(tree: Tree, word: int, seed: int = 0) -> int:
    """The place of a word type, by lot: the first word, the last, or the next (in the work the word
    itself, which is no candidate here). A word that stands there itself has its neighbour."""
    count = len(tree)
    wanted = (0, count - 1, word + 1)[int(3 * of_type(tree.forms[word].lower(), seed))]
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
    return torch.stack([*steps, *sides, *(side / offset.abs().clamp(min=1) for side in sides)])


def scores(scaled: Tensor, ends: Tensor | None, weights: Sequence[Tensor]) -> Tensor:
    """[pair], of weights [feature], and [2 model, feature] for the vectors at a pair's `ends`."""
    alone = scaled @ weights[0]
    return alone if ends is None else alone + ((scaled @ weights[1].T) * ends).sum(1)


def hits(parts: Sequence[Questions], vectors: Sequence[Tensor | None] = (None,) * 3) -> Tensor:
    """[question] of the last part: 1 where a probe finds the head.

    Fitted on the first part, with the penalty that is best on the second; `vectors` [word model]
    are those of each part's words. Features are scaled to spread 1.
    """
    scale = parts[0].features.std(0).clamp(min=1e-6)
    scaled = [part.features / scale for part in parts]
    ends = [
        None if v is None else torch.cat([v[part.asking], v[part.candidate]], dim=1)
        for part, v in zip(parts, vectors, strict=True)
    ]
    fitted = [fit(parts[0], scaled[0], ends[0], each) for each in PENALTIES]

    def hits_with(weights: Sequence[Tensor], part: int) -> Tensor:
        return parts[part].hits(scores(scaled[part], ends[part], weights))

    return hits_with(max(fitted, key=lambda each: float(hits_with(each, 1).mean())), 2)


def fit(given: Questions, scaled: Tensor, ends: Tensor | None, penalty: float) -> list[Tensor]:
    """Weights of least cross-entropy plus penalty · Σ weights², by L-BFGS."""
    shapes = [()] if ends is None else [(), ends.shape[1:]]
    weights = [torch.zeros(*of, scaled.shape[1], requires_grad=True) for of in shapes]
    optimiser = torch.optim.LBFGS(weights, max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = cross_entropy(given.table(scores(scaled, ends, weights)), given.right)
        value = value + penalty * sum((each**2).sum() for each in weights)
        value.backward()
        return value

    optimiser.step(loss)
    return [each.detach() for each in weights]
