"""The values that planted heads with noise must give, counted in plain Python from the sentences.

Shares no code with the measures or with the planted heads: words, pieces and arcs are lists, and a
head is a list of rows {key: weight}. Keys count from zero; the last one, of number `len(tokens)`,
is EOS. With probability p a query points at one of the n tokens at random instead.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

Row = dict[int, float]


@dataclass(frozen=True)
class Sentence:
    """Tokens by frequency rank, the word of each, and arcs (relation, dependent, head) of words."""

    tokens: tuple[int, ...]
    words: tuple[int, ...]
    arcs: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Looking:
    """Attention map of one head in one sentence: a row for every token, and one for EOS."""

    sentence: Sentence
    rows: tuple[Row, ...]

    @cached_property
    def size(self) -> int:
        return len(self.sentence.tokens)

    @cached_property
    def favourites(self) -> list[int | None]:
        """The token each token points at; None for EOS, and where several have as much."""
        return [_largest({key: weight for key, weight in row.items() if key < self.size})
                for row in self.rows[: self.size]]  # fmt: skip

    @cached_property
    def by_word(self) -> list[Row]:
        """The weights each token gives to words."""
        found: list[Row] = []
        for row in self.rows[: self.size]:
            weights: Row = {}
            for key, weight in row.items():
                if key < self.size:
                    word = self.sentence.words[key]
                    weights[word] = weights.get(word, 0.0) + weight
            found.append(weights)
        return found


class Trial(NamedTuple):
    """One addend of a measure, as a chance: its value without noise, and under it 0 or 1.

    Where the query is a word of two pieces, `mixed` counts for how many of the two the trial
    succeeds when that piece points at the answer by chance and the other one is clean.
    """

    clean: float
    chance: float
    pieces: int = 1
    mixed: int = 0

    def moments(self, noise: float) -> tuple[float, float]:
        """Mean and variance."""
        clean, hit = 1 - noise, noise * self.chance
        if self.pieces == 2:
            mean = clean**2 * self.clean + clean * hit * self.mixed + hit**2
            return mean, mean - mean**2
        mean = clean * self.clean + hit
        return mean, clean * self.clean**2 + hit - mean**2


@dataclass(frozen=True)
class Expectation:
    """The expected value of a measure, how far chance may take it from there, and of how many."""

    mean: float
    allowed: float
    count: int


def expectation(
    counted: Counter[Trial], noise: float, comparisons: int, level: float = 0.95
) -> Expectation:
    """The mean over trials, and the distance that none of so many comparisons passes by chance.

    Bernstein's inequality for sums of independent bounded terms: P(|S - E S| >= t) <=
    2 exp(-t^2 / (2 V + 2 M t / 3)). It holds for small counts too; without noise the distance is 0.
    """
    count = counted.total()
    moments = [(trial.moments(noise), times) for trial, times in counted.items()]
    mean = sum(one * times for (one, _), times in moments)
    variance = sum(spread * times for (_, spread), times in moments)
    if not count or variance < 1e-12:
        return Expectation(mean / count if count else math.nan, 0.0, count)
    bound = max(1.0, *(trial.clean for trial in counted))
    log = math.log(2 * comparisons / (1 - level))
    reach = bound * log / 3 + math.sqrt((bound * log / 3) ** 2 + 2 * log * variance)
    return Expectation(mean / count, reach / count, count)


# ----------------------------------------------------------------- what planted heads look at


def at_offset(offset: int) -> Callable[[Sentence], list[Row]]:
    def rows(sentence: Sentence) -> list[Row]:
        size = len(sentence.tokens)
        keys = [query + offset for query in range(size)]
        return [*({key if 0 <= key < size else size: 1.0} for key in keys), {size: 1.0}]

    return rows


def at_partner(relation: str, from_head: bool) -> Callable[[Sentence], list[Row]]:
    def rows(sentence: Sentence) -> list[Row]:
        size = len(sentence.tokens)
        found: list[Row] = [{size: 1.0} for _ in range(size + 1)]
        for name, dependent, head in sentence.arcs:
            if name == relation:
                asking, answer = (head, dependent) if from_head else (dependent, head)
                places = [at for at, word in enumerate(sentence.words) if word == answer]
                shares = [0.5**place for place, _ in enumerate(places)]
                row = {at: share / sum(shares) for at, share in zip(places, shares, strict=True)}
                for at, word in enumerate(sentence.words):
                    found[at] = row if word == asking else found[at]
        return found

    return rows


def at_rarest(sentence: Sentence) -> list[Row]:
    rarest = sentence.tokens.index(max(sentence.tokens))
    return [{rarest: 1.0}] * (len(sentence.tokens) + 1)


def uniform(sentence: Sentence) -> list[Row]:
    size = len(sentence.tokens) + 1
    return [dict.fromkeys(range(size), 1 / size)] * size


# ----------------------------------------------------------------- what measures must find


def confidence(head: Looking) -> Iterator[Trial]:
    for row in head.rows[: head.size]:
        tokens = (weight for key, weight in row.items() if key < head.size)
        yield Trial(max(tokens, default=0.0), 1.0)


def offset(head: Looking, at: int) -> Iterator[Trial]:
    favourites, chance = head.favourites, 1 / head.size
    for query in range(max(0, -at), min(head.size, head.size - at)):
        yield Trial(float(favourites[query] == query + at), chance)


def rare(head: Looking, ranks: int, outside_top: int) -> Iterator[Trial]:
    """Pointing at one of the tokens of the `ranks` highest frequency ranks."""
    tokens = head.sentence.tokens
    rarest = sorted(set(tokens), reverse=True)[:ranks]
    places = [at for at, token in enumerate(tokens) if token in rarest]
    if rarest[0] >= outside_top:
        chance = len(places) / head.size
        for favourite in head.favourites:
            yield Trial(float(favourite in places), chance)


def entropy(head: Looking) -> Iterator[Trial]:
    """In nats; EOS counts as query and key."""
    for row in head.rows:
        yield Trial(-sum(weight * math.log(weight) for weight in row.values()), 0.0)


def relation(head: Looking, name: str, from_head: bool) -> Iterator[Trial]:
    """The favourite word of a word: attention to its pieces summed, from them averaged."""
    for each, *ends in head.sentence.arcs:
        if each == name:
            answer, asking = ends if from_head else ends[::-1]
            clean = [head.by_word[at] for at in _places(head.sentence, asking)]
            chance = len(_places(head.sentence, answer)) / head.size
            right = float(_best_word(clean) == answer)
            if len(clean) == 1:
                yield Trial(right, chance)
            elif len(clean) == 2:
                mixed = sum(_best_word([{answer: 1.0}, other]) == answer for other in clean)
                yield Trial(right, chance, 2, mixed)
            else:
                raise ValueError(f"a word of {len(clean)} pieces; one or two are counted")


def _places(sentence: Sentence, word: int) -> list[int]:
    return [at for at, each in enumerate(sentence.words) if each == word]


def _best_word(rows: Sequence[Row]) -> int | None:
    whole: Row = {}
    for row in rows:
        for word, weight in row.items():
            whole[word] = whole.get(word, 0.0) + weight
    return _largest(whole)


def _largest(weights: Row) -> int | None:
    """The key with the largest weight; None without one, or where several have as much."""
    most = max(weights.values(), default=0.0)
    there = [key for key, weight in weights.items() if weight > most - 1e-9]
    return there[0] if most > 0 and len(there) == 1 else None
