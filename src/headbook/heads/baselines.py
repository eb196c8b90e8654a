"""How far trees are answered without any attention: by a fixed offset, or by parts of speech.

The offsets are the positional baseline of Voita et al. 2019, section 5.2. The part-of-speech rule
("the nearest noun after the verb") reads gold parts of speech and order, and no tree; it is
stronger, and ours.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.heads.arcs import Questions, questions, tally
from headbook.text.alignment import NO_WORD, AlignedTree
from headbook.types import UserError

REACH = 20
"""Largest offset looked at; longer arcs count as missed."""
TAGS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM",
    "PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X",
)  # fmt: skip
"""The universal parts of speech, https://universaldependencies.org/u/pos/."""
CLASSES = (
    *((tag,) for tag in TAGS),
    ("NOUN", "PROPN"),
    ("NOUN", "PROPN", "PRON"),
    ("VERB", "AUX"),
    ("VERB", "ADJ"),
    ("VERB", "ADJ", "ADV"),
    ("VERB", "ADJ", "NOUN"),
)
"""Sets of tags a rule may look for: every tag, nominals, and words that have dependents.

Few enough to be named. On English treebanks all sets of up to three tags do no better.
"""


SIDES = ("previous", "next", "nearest")
"""Where a rule looks from the query; of two equally near words the one before counts."""
RULES = tuple(f"{side} {' or '.join(tags)}" for tags, side in product(CLASSES, SIDES))
"""Each points at the nearest word on its side that has one of its tags."""

Hits = Float[np.ndarray, "sentence candidate question"]


def asked(
    trees: Sequence[AlignedTree], causal: bool = False
) -> Float[np.ndarray, "sentence question"]:
    """Number of questions of each tree, by RELATION_DIRECTIONS; `causal` as in `questions`."""
    every = questions(trees, causal)
    return _counted(every, torch.ones(len(every.row), dtype=torch.float64), trees)


def chance_hits(trees: Sequence[AlignedTree]) -> Hits:
    """Causal questions that are answered by pointing at every earlier word equally often."""
    every = questions(trees, causal=True)
    return _counted(every, 1 / every.word.double(), trees)[:, None]


def offset_hits(trees: Sequence[AlignedTree], causal: bool = False) -> Hits:
    """Questions whose partner stands -REACH to REACH words from the asking word.

    This is also the histogram of the partners' positions (Voita et al. 2019, Figure 3).
    """
    every = questions(trees, causal)
    offsets = torch.arange(-REACH, REACH + 1)
    right = (every.partner - every.word)[:, None] == offsets
    return _counted(every, right.double(), trees).swapaxes(1, 2)


def rule_hits(trees: Sequence[AlignedTree], causal: bool = False) -> Hits:
    """Questions that each of RULES answers right; UserError for a tree without parts of speech.

    Where the questions are causal, rules that look at later words are never right.
    """
    bare = [number for number, tree in enumerate(trees) if not tree.tags]
    if bare:
        raise UserError(
            f"parse of sentence {bare[0]} has no parts of speech; use a gold treebank, or a "
            "pipeline with a tagger"
        )
    every = questions(trees, causal)
    first = np.cumsum([0, *(len(tree.tags) for tree in trees[:-1])])
    members = [np.array([[tag in each for each in CLASSES] for tag in tree.tags]) for tree in trees]
    answers = torch.from_numpy(np.concatenate([nearest(each) for each in members]))
    right = answers[torch.from_numpy(first)[every.row] + every.word] == every.partner[:, None]
    return _counted(every, right.double(), trees).swapaxes(1, 2)


def nearest(members: Bool[np.ndarray, "word class"]) -> Int[np.ndarray, "word rule"]:
    """The word each rule points at from each word, NO_WORD where there is none."""
    words, classes = members.shape
    places = np.arange(words)[:, None]
    far = 2 * words  # farther than any word
    # The query itself is no answer: each looks from its neighbour.
    edge = np.full((1, classes), -far), np.full((1, classes), far)
    before = np.maximum.accumulate(np.where(members, places, -far))
    after = np.minimum.accumulate(np.where(members, places, far)[::-1])[::-1]
    before, after = np.vstack([edge[0], before[:-1]]), np.vstack([after[1:], edge[1]])
    either = np.where(places - before <= after - places, before, after)
    found = np.stack([before, after, either], axis=-1).reshape(words, -1)
    return np.where((found < 0) | (found >= words), NO_WORD, found)


def _counted(every: Questions, values: Tensor, trees: Sequence[AlignedTree]) -> np.ndarray:
    return tally(every, values, len(trees)).numpy()
