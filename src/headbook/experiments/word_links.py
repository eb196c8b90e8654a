"""Pairs of PUD's sentences with links between their words, by eflomal, for page 53.

eflomal (Östling and Tiedemann 2016) aligns in both directions after learning from PUD and NTREX
together, about 3,000 pairs, in a minute. Links that both directions have are sure here, those of
either possible; Och and Ney (2003) have people say which. Two runs differ a little, as it draws at
random: the links of English and Portuguese are published, those of other languages made each time.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int

import headbook as hb
from headbook.corpora.readers import load
from headbook.models.loaded import Loaded
from headbook.results import published
from headbook.text.alignment import align_all
from headbook.text.trees import Tree
from headbook.types import UserError

ENGLISH, PORTUGUESE = "en", "pt"
KINDS = {"numbers": "NUM", "names": "PROPN", "punctuation": "PUNCT"}
"""Words that are the same in both languages, by their universal part of speech."""
Links = list[set[tuple[int, int]]]
"""Of each sentence pair, places of a source word and of a target word."""
Matrix = Bool[np.ndarray, "target_word source_word"]


class Pair(NamedTuple):
    """A sentence pair with its links; sure ones are possible, too.

    `pieces` and `tokens` hold the word of each token that a model reads and predicts, -1 for none.
    `alike` are the words of each kind that are written alike, once in either sentence.
    """

    source: Tree
    target: Tree
    pieces: Int[np.ndarray, " piece"]
    tokens: Int[np.ndarray, " token"]
    sure: Matrix
    possible: Matrix
    alike: Sequence[Matrix]


def pairs(model: Loaded, text: str, first: int | None = None) -> list[Pair]:
    """Sentences of a parallel treebank ("ud-pud") on a translator's tokens, in their order.

    UserError for a model that does not translate from or to English, and for other languages.
    """
    others = [each for each in model.languages if each != ENGLISH]
    if ENGLISH not in model.languages or len(others) != 1 or others[0] is None:
        raise UserError(f"{model.name} does not translate from or to English: name one that does")
    known = published(53, "links") if others[0] == PORTUGUESE else aligned(others[0])
    sides = [hb.text(f"{text}-{each}", first=first).trees for each in model.languages]
    found = []
    for source, target, row in zip(*sides, known.to_dict("records"), strict=False):
        pieces, tokens = (align_all(tree, model.spans(tree.text, tree is target)).pieces.numpy()
                          for tree in (source, target))  # fmt: skip
        turned = model.languages[0] != ENGLISH
        sure, more = (_matrix(row[x], source, target, turned) for x in ("sure", "possible"))
        alike = [_alike(target, source, tag) for tag in KINDS.values()]
        found.append(Pair(source, target, pieces, tokens, sure, sure | more, alike))
    return found


def _matrix(cell: str, source: Tree, target: Tree, turned: bool = False) -> Matrix:
    """Links of a cell: English words are on the left, the source's unless `turned`."""
    found = np.zeros((len(target), len(source)), bool)
    for english, other in _links(cell):
        found[(english, other) if turned else (other, english)] = True
    return found


def _alike(target: Tree, source: Tree, tag: str) -> Matrix:
    same = np.array(target.forms)[:, None] == np.array(source.forms)
    once = (same.sum(1, keepdims=True) == 1) & (same.sum(0) == 1)
    return same & once & (np.array(target.tags) == tag)[:, None]


def aligned(language: str) -> pd.DataFrame:
    """Links from PUD's English words to those of another language: sentence, sure, possible."""
    sides = [hb.text(f"ud-pud-{each}").trees for each in (ENGLISH, language)]
    (more,) = load(f"ntrex-{language}").tests.values()
    places, words = [], []
    for trees, lines in zip(sides, (more.source, more.target), strict=True):
        # The second part of a contraction has no letters.
        places.append([np.flatnonzero([end > start for start, end in tree.words])
                       for tree in trees])  # fmt: skip
        forms = [[tree.forms[at] for at in own]
                 for tree, own in zip(trees, places[-1], strict=True)]  # fmt: skip
        words.append(forms + [re.findall(r"\w+|[^\w\s]", line) for line in lines])
    rows = []
    for at, (source, target, one, other) in enumerate(zip(*places, *eflomal(*words), strict=False)):
        both = (" ".join(f"{source[s]}-{target[t]}" for s, t in sorted(each))
                for each in (one & other, one ^ other))  # fmt: skip
        rows.append([at, *both])
    return pd.DataFrame(rows, columns=["sentence", "sure", "possible"])


def eflomal(sources: Sequence[list[str]], targets: Sequence[list[str]]) -> tuple[Links, Links]:
    """Links of every pair in either direction, of words in lower case.

    UserError where eflomal is not installed.
    """
    try:
        import eflomal
    except ImportError:
        given = 'words are aligned by eflomal, built in C: pip install "headbook[align]"'
        raise UserError(given) from None
    with TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("forward", "backward")]
        lines = ([" ".join("_".join(word.lower().split()) or "_" for word in words)
                  for words in side] for side in (sources, targets))  # fmt: skip
        names = ("links_filename_fwd", "links_filename_rev")
        eflomal.Aligner().align(*lines, **dict(zip(names, map(str, files), strict=True)))
        return tuple([*map(_links, file.read_text().splitlines())] for file in files)


def _links(cell: str) -> set[tuple[int, int]]:
    return {tuple(map(int, link.split("-"))) for link in cell.split()}


def again(name: str, text: str, first: int | None = None) -> pd.DataFrame:
    """One row: the error of a second run's sure links against those that `pairs` gives, and of
    these the shares of words written alike that are linked. The model `name` reads English."""
    hits, cases, model = [], [], hb.load(name)
    read = pairs(model, text, first)
    for pair, cell in zip(read, aligned(model.languages[1])["sure"], strict=False):
        found = _matrix(cell, pair.source, pair.target)
        agreed = (found & pair.sure).sum() + (found & pair.possible).sum()
        hits.append([agreed, *((each & pair.sure).sum() for each in pair.alike)])
        cases.append([found.sum() + pair.sure.sum(), *(each.sum() for each in pair.alike)])
    shares = hb.shares(np.array(hits), np.array(cases))
    labels = {"model": "-".join(model.languages), "sentences": len(hits)}
    found = hb.table(labels, error=1 - shares[:, :1])
    return found.assign(**dict(zip(KINDS, shares[0, 1:], strict=True)))
