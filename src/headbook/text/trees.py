"""Dependency trees as plain data, which every layer of the package may use."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

ROOT = -1
RELATIONS = ("nsubj", "dobj", "amod", "advmod")


class Direction(StrEnum):
    """End of an arc that is the query; the paper writes nsubj's two directions v->s and s->v."""

    HEAD_TO_DEPENDENT = "head_to_dependent"
    DEPENDENT_TO_HEAD = "dependent_to_head"


RELATION_DIRECTIONS: tuple[tuple[str, Direction], ...] = tuple(
    (relation, direction) for relation in RELATIONS for direction in Direction
)


@dataclass(frozen=True)
class Arc:
    """One dependency: word indices from zero within the sentence, and its normalised relation."""

    relation: str
    dependent: int
    head: int


@dataclass(frozen=True)
class Tree:
    """A sentence, its words and its dependencies.

    `words` are half-open character spans in `text`; `heads` are word indices, ROOT (-1) for the
    word that has none; `relations` and `tags` (universal parts of speech, or empty) go word by
    word. Raises ValueError when the parts do not fit together.
    """

    text: str
    words: tuple[tuple[int, int], ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count = len(self.words)
        of_words = (self.heads, self.relations, self.tags or self.words)
        if {count} != set(map(len, of_words)):
            raise ValueError(f"{count} words, and not as many heads, labels and tags")
        if any(not ROOT <= head < count or head == word for word, head in enumerate(self.heads)):
            raise ValueError(f"a head lies outside the sentence: {self.heads}")
        reached = set(self.heads)
        for _ in range(count):
            reached = {self.heads[word] for word in reached if word != ROOT}
        if reached - {ROOT}:
            raise ValueError(f"the heads form a cycle: {self.heads}")
        edge = 0
        for start, end in self.words:
            if not edge <= start <= end <= len(self.text):
                raise ValueError(f"word span {start}:{end} overlaps or lies outside the text")
            edge = end

    def __len__(self) -> int:
        return len(self.words)

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.words)

    def arcs(self) -> Iterator[Arc]:
        """Every dependency but the root's, in the order of the dependents."""
        for dependent, (head, relation) in enumerate(zip(self.heads, self.relations, strict=True)):
            if head != ROOT:
                yield Arc(relation, dependent, head)
