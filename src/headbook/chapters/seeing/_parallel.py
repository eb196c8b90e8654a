"""Parallel treebanks and the links between their words, as a model's tokens have them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from headbook.chapters.results import published
from headbook.claims.gates import RELEASED
from headbook.corpora.readers import load
from headbook.corpora.registry import registry
from headbook.corpora.word_links import WordLinks, word_links
from headbook.heads.alignment import WordPair
from headbook.looking.text import text
from headbook.models.loaded import Loaded
from headbook.syntax.alignment import align_all
from headbook.trees import Tree
from headbook.types import UserError

TREEBANK, MORE = "ud-pud-{}", "ntrex-{}"
"""Sentences to measure on, and pairs that the aligner learns from as well."""
ENGLISH = "en"
GROUPS = {"numbers": "NUM", "names": "PROPN", "punctuation": "PUNCT"}
"""Words that are the same in both languages, by their universal part of speech."""


@dataclass(frozen=True)
class Parallel:
    """Sentences of two languages, pair by pair, with links from the first to the second."""

    languages: tuple[str, str]
    sources: Sequence[Tree]
    targets: Sequence[Tree]
    links: Sequence[WordLinks]

    def turned(self) -> "Parallel":
        """The same in the other direction."""
        links = [WordLinks(_turned(each.sure), _turned(each.possible)) for each in self.links]
        return Parallel(self.languages[::-1], self.targets, self.sources, links)

    def first(self, count: int | None) -> "Parallel":
        return Parallel(self.languages, *(each[:count] for each in
                                          (self.sources, self.targets, self.links)))  # fmt: skip

    def on(self, model: Loaded) -> list[WordPair]:
        """Every pair on the model's tokens."""
        triples = zip(self.sources, self.targets, self.links, strict=True)
        return [_on(model, *triple) for triple in triples]


def parallel(other: str, links: Sequence[WordLinks] | None = None) -> Parallel:
    """PUD in English and another language; without links its words are aligned now.

    UserError for a language that has no such treebank.
    """
    for language in (ENGLISH, other):
        if TREEBANK.format(language) not in registry():
            raise UserError(f"no parallel treebank in {language}: name a model of another language")
    english, foreign = (text(TREEBANK.format(each)).trees for each in (ENGLISH, other))
    return Parallel((ENGLISH, other), english, foreign, links or aligned(english, foreign, other))


def aligned(english: Sequence[Tree], foreign: Sequence[Tree], other: str) -> list[WordLinks]:
    """Links by eflomal, which learns from NTREX as well, between words that are written."""
    more = _lines(other)
    numbers = [[_written(tree) for tree in each] for each in (english, foreign)]
    forms = [[[tree.forms[at] for at in words] for tree, words in zip(trees, own, strict=True)]
             for trees, own in zip((english, foreign), numbers, strict=True)]  # fmt: skip
    found = word_links(forms[0] + more[0], forms[1] + more[1])
    triples = zip(found, *numbers, strict=False)
    return [WordLinks(*(frozenset((source[s], target[t]) for s, t in each)
                        for each in (links.sure, links.possible)))
            for links, source, target in triples]  # fmt: skip


def _written(tree: Tree) -> list[int]:
    """Numbers of the words that have letters; the second part of a contraction has none."""
    return [at for at, (start, end) in enumerate(tree.words) if end > start]


def _lines(other: str) -> tuple[list[list[str]], list[list[str]]]:
    """NTREX cut into words and marks, English first."""
    (pairs,) = load(MORE.format(other)).tests.values()
    return [_cut(line) for line in pairs.source], [_cut(line) for line in pairs.target]


def _cut(line: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", line)


def _turned(links: frozenset) -> frozenset:
    return frozenset((target, source) for source, target in links)


def _on(model: Loaded, source: Tree, target: Tree, links: WordLinks) -> WordPair:
    pieces = align_all(source, model.spans(source.text)).pieces
    tokens = align_all(target, model.spans(target.text, target=True)).pieces
    matrices = [_matrix(each, len(target), len(source)) for each in (links.sure, links.possible)]
    groups = torch.stack([same(source, target, tag) for tag in GROUPS.values()])
    return WordPair(pieces, tokens, *matrices, groups)


def _matrix(links: frozenset, targets: int, sources: int) -> Bool[Tensor, "target source"]:
    found = torch.zeros(targets, sources, dtype=torch.bool)
    for source, target in links:
        found[target, source] = True
    return found


def same(source: Tree, target: Tree, tag: str) -> Bool[Tensor, "target_word source_word"]:
    """Words with the tag that are written alike and stand once in either sentence."""
    found = torch.zeros(len(target), len(source), dtype=torch.bool)
    for at, form in enumerate(target.forms):
        if form and target.tags[at] == tag and target.forms.count(form) == 1:
            places = [place for place, other in enumerate(source.forms) if other == form]
            if len(places) == 1:
                found[at, places[0]] = True
    return found


def same_links(text: Parallel, tag: str) -> float:
    """Share of the words with the tag that are written alike whose link is among the sure ones."""
    found = [(source, target) in links.sure
             for one, two, links in zip(text.sources, text.targets, text.links, strict=True)
             for target, source in same(one, two, tag).nonzero().tolist()]  # fmt: skip
    return sum(found) / len(found) if found else float("nan")


def as_table(links: Sequence[WordLinks]) -> pd.DataFrame:
    """One row per sentence: sure links, and those that are only possible, as `0-0 1-2`."""
    return pd.DataFrame(
        {"sentence": at, "sure": _text(each.sure), "possible": _text(each.possible - each.sure)}
        for at, each in enumerate(links)
    )


def from_table(table: pd.DataFrame) -> list[WordLinks]:
    """The links of a table by `as_table`."""
    sure, more = ([_read(cell) for cell in table[name].fillna("")] for name in ("sure", "possible"))
    return [WordLinks(one, one | other) for one, other in zip(sure, more, strict=True)]


def published_links(page: str) -> list[WordLinks]:
    """The links that were published with the page; UserError before there are any."""
    return from_table(published(page, RELEASED).tables["links"])


def _text(links: frozenset) -> str:
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def _read(cell: str) -> frozenset:
    return frozenset(
        (int(one), int(two)) for one, two in (pair.split("-") for pair in cell.split())
    )
