"""Sentences whose words people rated: the Stanford Sentiment Treebank, and planted ones.

Socher et al. 2013: every node of a tree has a rating from 0, very negative, to 4, very positive.
"""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

from headbook.text import download
from headbook.text.files import text_lines
from headbook.text.registry import CorpusKind, corpus
from headbook.types import UserError

Item = TypeVar("Item")
NEUTRAL, HIGHEST = 2, 4
SPLITS = ("train", "dev", "test")
ESCAPED = {"-LRB-": "(", "-RRB-": ")", "\\/": "/", "\\*": "*"}
NEGATORS = frozenset({
    "not", "n't", "no", "never", "nothing", "neither", "nor", "none", "nobody", "nowhere",
    "without", "hardly", "barely",
})  # fmt: skip
PLANTED = "planted"
"""The corpus of `planted`: there without a download."""
KEYS = {"superb": HIGHEST, "awful": 0}
TEMPLATES = "templates"
"""The corpus of `templates`: there without a download."""
SUBJECTS = ("film", "book", "music", "food", "play", "room", "song", "class", "walk", "talk")
SAID = dict.fromkeys(("good", "clever", "lovely", "funny"), HIGHEST)
SAID |= dict.fromkeys(("bad", "dull", "silly", "ugly"), 0)
ADDED = ("", "to me", "in the end", "on Monday", "as far as I can tell", "for a while")
OTHER_WORDS = tuple(f"word{number}" for number in range(40))


@dataclass(frozen=True)
class Rated:
    """A sentence: its words, the rating of each word by itself, and that of the whole."""

    words: tuple[str, ...]
    ratings: tuple[int, ...]
    rating: int

    @property
    def positive(self) -> bool:
        return self.rating > NEUTRAL

    @property
    def polar(self) -> tuple[bool, ...]:
        """True at the words that are not neutral by themselves; negators count as no polar word."""
        return tuple(
            rating != NEUTRAL and word.lower() not in NEGATORS
            for word, rating in zip(self.words, self.ratings, strict=True)
        )

    @property
    def negators(self) -> tuple[bool, ...]:
        """True at words that negate."""
        return tuple(word.lower() in NEGATORS for word in self.words)


def load_rated(name: str) -> dict[str, list[Rated]]:
    """Train, dev and test of a corpus of rated sentences; UserError for another kind of corpus."""
    if name == PLANTED:
        counts = {"train": 600, "dev": 100, "test": 100}
        return {split: planted(counts[split], seed) for seed, split in enumerate(SPLITS)}
    if name == TEMPLATES:
        found = templates()
        return {"train": found[:-400], "dev": found[-400:-200], "test": found[-200:]}
    if corpus(name).kind is not CorpusKind.RATED:
        raise UserError(f"{name} has no ratings: give sst, {TEMPLATES} or {PLANTED}")
    files = download.locate(name)
    return {split: read_rated(text_lines(files[f"{split}.trees"])) for split in SPLITS}


def decided(sentences: Iterable[Rated]) -> list[Rated]:
    """Positive and negative sentences: the binary task leaves neutral ones out."""
    return [sentence for sentence in sentences if sentence.rating != NEUTRAL]


def spread(found: Sequence[Item], count: int) -> list[Item]:
    """So many from all over the list: a corpus may have its sentences in the order of ratings."""
    step = max(len(found) / count, 1.0)
    return [found[int(step * number)] for number in range(min(count, len(found)))]


def read_rated(lines: Iterable[str]) -> list[Rated]:
    """One sentence per line, a tree in brackets, as (3 (2 a) (4 joy))."""
    found = []
    for line in filter(str.strip, lines):
        leaves = re.findall(r"\(([0-4]) ([^\s()]+)\)", line)
        words = tuple(ESCAPED.get(word, word.replace("\\/", "/")) for _, word in leaves)
        found.append(Rated(words, tuple(int(rating) for rating, _ in leaves), int(line[1])))
    return found


def planted(count: int, seed: int) -> list[Rated]:
    """Sentences of words that say nothing and one that decides, at a random place."""
    drawn = random.Random(seed)
    sentences = []
    for number in range(count):
        key = list(KEYS)[number % len(KEYS)]
        words = drawn.choices(OTHER_WORDS, k=drawn.randint(8, 16))
        words.insert(drawn.randint(0, len(words)), key)
        ratings = tuple(KEYS.get(word, NEUTRAL) for word in words)
        sentences.append(Rated(tuple(words), ratings, KEYS[key]))
    return sentences


def templates() -> list[Rated]:
    """Sentences such as "the music was not good to me", where "not" and "never" turn the rating."""
    found = []
    for parts in product(SUBJECTS, ("is", "was"), ("", "not", "never"), SAID, ADDED):
        words = tuple(" ".join(("the", *parts)).split())
        rating = HIGHEST - SAID[parts[3]] if parts[2] else SAID[parts[3]]
        found.append(Rated(words, tuple(SAID.get(each, NEUTRAL) for each in words), rating))
    random.Random(0).shuffle(found)
    return found


def written(words: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The words as one line of text, and each word's half-open span of characters in it.

    A space stands between words, but none before a clitic or a mark that closes ("do n't" is
    written "don't"), as the models that read it know text.
    """
    text, spans = "", []
    for word in words:
        glued = word.startswith("'") or word in {"n't", ",", ".", "!", "?", ";", ":", ")", "..."}
        text += "" if not text or glued else " "
        spans.append((len(text), len(text) + len(word)))
        text += word
    return text, spans
