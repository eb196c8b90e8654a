"""Positions of dependents relative to their heads in one text, with intervals over sentences."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.artefacts.texts import Text
from headbook.heads.bootstrap import poisson_weights
from headbook.heads.measure import REPLICATES
from headbook.runs.seeds import derived
from headbook.syntax.offsets import most_frequent_offset
from headbook.trees import RELATIONS, Direction

DRAWN = {"nsubj": (-7, 1), "dobj": (0, 5), "amod": (-3, 1), "advmod": (-6, 2)}
"""The offsets the paper's Figure 3 shows, dependent minus head in words; the ledger has them."""
PERSONS = {"first": {"i", "we"}, "second": {"you"}}
"""Subjects told by their form; every other subject counts as third person."""
THIRD = "third"


@dataclass(frozen=True)
class Positions:
    """The arcs of the four relations in one text: each arc's sentence, relation and offset."""

    corpus: str
    target: str
    text: Text
    sentence: Int[Tensor, " arc"]
    relation: Int[Tensor, " arc"]
    offset: Int[Tensor, " arc"]
    person: tuple[str, ...]  # of the dependent, were it a subject

    @property
    def labels(self) -> dict[str, str]:
        return {"text": self.text.name, "corpus": self.corpus, "parser": self.text.parser}

    @property
    def claim_labels(self) -> dict[str, object]:
        """No model is looked at, so none is named and there is no seed."""
        return {"model": self.corpus, "corpus": self.corpus, "target": self.target, "seed": ""}

    @cached_property
    def weights(self) -> Float[Tensor, "sentence replicate"]:
        """Each sentence's bootstrap weights. Numbered from a number of the text's own, so that the
        resamples of two texts are independent."""
        start = derived(0, f"{self.text.name} of {self.corpus}") << 20
        return poisson_weights(torch.arange(len(self.text.trees)) + start, REPLICATES)

    def of(self, relation: str) -> Bool[Tensor, " arc"]:
        return self.relation == RELATIONS.index(relation)

    def most_frequent(self, relation: str) -> int | None:
        """The most frequent offset, None where the text has no such arc."""
        if not self.of(relation).any():
            return None
        return most_frequent_offset(self.text.trees, relation, Direction.HEAD_TO_DEPENDENT)

    def share(
        self, part: Bool[Tensor, " arc"], whole: Bool[Tensor, " arc"]
    ) -> Float[Tensor, " replicate"]:
        """The share of the arcs of `whole` that are in `part` too; row 0 plain, then resampled."""
        return self._count(part & whole) / self._count(whole)

    def within(self, relation: str, first: int, last: int) -> Float[Tensor, " replicate"]:
        """The share of a relation's dependents that stand `first` to `last` words from the head."""
        inside = (self.offset >= first) & (self.offset <= last)
        return self.share(inside, self.of(relation))

    def at_most_frequent(self, relation: str) -> Float[Tensor, " replicate"]:
        """The share found by always pointing at the most frequent offset: the paper's baseline."""
        offset = self.most_frequent(relation)
        if offset is None:
            return torch.full((REPLICATES + 1,), torch.nan, dtype=torch.float64)
        return self.within(relation, offset, offset)

    def persons(self, *persons: str) -> Float[Tensor, " replicate"]:
        """The share of subjects of these persons."""
        asked = torch.tensor([person in persons for person in self.person], dtype=torch.bool)
        return self.share(asked, self.of("nsubj"))

    def _count(self, arcs: Bool[Tensor, " arc"]) -> Float[Tensor, " replicate"]:
        counts = torch.bincount(self.sentence[arcs], minlength=len(self.text.trees))
        return counts.double() @ self.weights


def positions(text: Text, corpus: str, target: str) -> Positions:
    """The arcs of a text's trees."""
    arcs = [
        (number, RELATIONS.index(arc.relation), arc.offset, _person(tree.forms[arc.dependent]))
        for number, tree in enumerate(text.trees)
        for arc in tree.arcs()
        if arc.relation in RELATIONS
    ]
    sentence, relation, offset, person = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    numbers = (torch.tensor(each, dtype=torch.long) for each in (sentence, relation, offset))
    return Positions(corpus, target, text, *numbers, person)


def _person(form: str) -> str:
    return next((name for name, forms in PERSONS.items() if form.lower() in forms), THIRD)
