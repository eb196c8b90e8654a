"""The controlled corpus: a grammar we wrote, so trees, offsets and rare words are known exactly."""

import random
from dataclasses import dataclass
from functools import lru_cache

from headbook.corpora.controlled_grammar import Node, draw, english, rare_place
from headbook.corpora.controlled_target import TargetOrder, translate
from headbook.trees import Tree
from headbook.types import UserError

__all__ = ["ControlledCorpus", "TargetOrder", "generate", "split"]

ATTEMPTS = 50
"""Draws allowed for each sentence asked for, before the grammar counts as exhausted."""


@dataclass(frozen=True)
class ControlledCorpus:
    """Sentences in both languages, the source's gold trees, and where the rare words are.

    `rare` holds for each sentence the word index of its planted rare word, None without one.
    """

    order: TargetOrder
    source: tuple[str, ...]
    target: tuple[str, ...]
    trees: tuple[Tree, ...]
    rare: tuple[int | None, ...]

    def __len__(self) -> int:
        return len(self.source)

    def part(self, start: int, stop: int) -> "ControlledCorpus":
        """The sentences from `start` up to `stop`, out."""
        return ControlledCorpus(
            order=self.order,
            source=self.source[start:stop],
            target=self.target[start:stop],
            trees=self.trees[start:stop],
            rare=self.rare[start:stop],
        )


def generate(order: TargetOrder, sentences: int, seed: int) -> ControlledCorpus:
    """So many distinct source sentences; the seed decides them alone, whatever the target's order.

    Raises UserError when the grammar yields too few distinct sentences.
    """
    drawn = _drawn(sentences, seed)
    if len(drawn) < sentences:
        raise UserError(f"controlled-{order}: no {sentences} distinct sentences; ask for fewer")
    return ControlledCorpus(
        order=order,
        source=tuple(tree.text for _, tree in drawn),
        target=tuple(translate(root, order) for root, _ in drawn),
        trees=tuple(tree for _, tree in drawn),
        rare=tuple(rare_place(root) for root, _ in drawn),
    )


@lru_cache(maxsize=1)  # a page asks for one order after the other
def _drawn(sentences: int, seed: int) -> tuple[tuple[Node, Tree], ...]:
    """Distinct sentences, so many or as many as the grammar yields."""
    chance = random.Random(seed)
    found: dict[str, tuple[Node, Tree]] = {}
    for _ in range(ATTEMPTS * sentences):
        if len(found) == sentences:
            break
        root = draw(chance)
        tree = english(root)
        found.setdefault(tree.text, (root, tree))
    return tuple(found.values())


@lru_cache(maxsize=8)  # a page asks for its corpus many times over
def split(
    order: TargetOrder, train: int = 6000, valid: int = 300, test: int = 500, seed: int = 0
) -> tuple[ControlledCorpus, ControlledCorpus, ControlledCorpus]:
    """Training, validation and test parts; no source sentence is in two of them."""
    whole = generate(order, train + valid + test, seed)
    edges = (0, train, train + valid, train + valid + test)
    first, second, third = (whole.part(edges[at], edges[at + 1]) for at in range(3))
    return first, second, third
