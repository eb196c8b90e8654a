"""Released models on gold trees: the passes that the pages of this part share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headbook.corpora.batches import Batch
from headbook.heads.collect import collect
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.looking.load import load
from headbook.looking.text import reads
from headbook.looking.text import text as sentences_of
from headbook.models.loaded import Loaded
from headbook.syntax.alignment import AlignedTree, align_all
from headbook.trees import Tree
from headbook.types import UserError

ENGLISH, PORTUGUESE = "ud-pud-en", "ud-pud-pt"
"""The same thousand sentences in both languages: the texts of the comparison."""
PARALLEL = (ENGLISH, PORTUGUESE)

EWT = "ud-ewt"
"""The text of the pages' sentences: gold trees of the dev and test parts."""
TEXTS = {"ewt-sample": "EWT sample", EWT: "EWT", "ud-pud-en": "PUD", "ud-pud-pt": "Portuguese PUD"}
"""Texts as figures and tables name them."""


@dataclass(frozen=True)
class Reading:
    """One model on one text, with the text's trees laid on the model's own tokens."""

    model: Loaded
    text: str
    parsed: Sequence[Tree]
    trees: Sequence[AlignedTree]
    batches: Sequence[Batch]

    @property
    def labels(self) -> dict[str, object]:
        """The columns that say whose row it is."""
        return {"model": self.model.name, "text": self.text, "sentences": len(self.trees)}

    def first(self, count: int) -> "Reading":
        """The same of the text's first sentences."""
        return (
            self if len(self.parsed) <= count else read(self.model, self.text, self.parsed[:count])
        )

    def sums(self, measures: Mapping[str, HeadMeasure]) -> dict[str, RatioSums]:
        """The measures over all sentences, in one pass."""
        collect(self.model.network, self.batches, list(measures.values()), progress=iter)
        return {name: measure.sums() for name, measure in measures.items()}


def readings(models: Sequence[str], texts: Sequence[str], sentences: int | None) -> list[Reading]:
    """Every model on every text, `sentences` of each at most; UserError for one without trees."""
    if sentences is not None and sentences < 4:
        raise UserError(f"sentences is {sentences}; give 4 or more, as halves are compared")
    trees = {text: sentences_of(text, first=sentences).trees for text in texts}
    for text, parsed in trees.items():
        if not parsed:
            raise UserError(f"{text} has no trees: name a treebank, or install a spaCy pipeline")
    return [read(load(name), text, trees[text]) for name in models for text in texts]


def in_their_language(
    models: Sequence[str], texts: Sequence[str], sentences: int | None
) -> Iterator[Reading]:
    """Every model on those of the treebanks that are in the language it reads."""
    trees = {text: trees_of(text, sentences) for text in texts}
    for name in models:
        model = load(name)
        for text, parsed in trees.items():
            if reads(model, text):
                yield read(model, text, parsed)


def trees_of(text: str, sentences: int | None = None) -> Sequence[Tree]:
    """Gold trees of a treebank; UserError for another text."""
    trees = sentences_of(text, first=sentences).trees
    if not trees:
        raise UserError(f"{text} has no trees: name a treebank")
    return trees


def read(model: Loaded, text: str, trees: Sequence[Tree]) -> Reading:
    """One model on one text."""
    aligned = [align_all(tree, model.spans(tree.text)) for tree in trees]
    return Reading(model, text, trees, aligned, model.batches([tree.text for tree in trees]))
