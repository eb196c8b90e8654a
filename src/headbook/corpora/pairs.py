"""Sentence pairs from line-aligned files and tables, and counts of those that are left out."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path

from headbook.text.files import text_lines
from headbook.types import UserError

MAXIMUM_TOKENS = 200
"""White-space tokens a side, as in the paper's code; longer pairs are left out."""
Pair = tuple[str, str]


class Reason(StrEnum):
    """Why a sentence pair was left out."""

    EMPTY_SIDE = "one side is empty"
    OVER_LONG = "more than 200 tokens on one side"
    NOT_A_PAIR = "no tab between two sides"
    REPEATED = "repeats an earlier pair"
    IN_EVALUATION = "its English sentence is in an evaluation set of this language pair"
    SAME_GROUP = "another pair of its group stands in the evaluation split"
    LOW_OVERLAP = "the subtitles' times overlap by less than 0.9"


Dropped = Counter[Reason]
"""How many pairs were left out, by reason."""


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs; `source[i]` is translated by `target[i]`."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[Pair]:
        return iter(zip(self.source, self.target, strict=True))

    def first(self, count: int | None) -> "Pairs":
        """The first `count` pairs, all of them when `count` is None."""
        return Pairs(self.source[:count], self.target[:count])

    @classmethod
    def of(cls, pairs: Iterable[Pair]) -> "Pairs":
        both = list(pairs)
        return cls(tuple(source for source, _ in both), tuple(target for _, target in both))


def paired(left: Iterable[str], right: Iterable[str], names: Pair) -> Iterator[Pair]:
    """Line-aligned sides as pairs; UserError where one side ends before the other."""
    for number, (source, target) in enumerate(zip_longest(left, right)):
        if source is None or target is None:
            shorter, longer = names if source is None else reversed(names)
            raise UserError(
                f"{shorter} has {number:,} lines and {longer} has more: line i must translate "
                "line i, so find where they part and mend one of them"
            )
        yield source, target


def table_rows(lines: Iterable[str], dropped: Dropped) -> Iterator[Pair]:
    """The first two of tab-separated columns; rows without a tab are left out and counted."""
    for line in lines:
        left, tab, right = line.partition("\t")
        if tab:
            yield left, right.partition("\t")[0]
        else:
            dropped[Reason.NOT_A_PAIR] += 1


def usable(pairs: Iterable[Pair], dropped: Dropped) -> Iterator[Pair]:
    """The pairs that can be used, white space at the ends removed; the others are counted."""
    for source, target in pairs:
        lengths = len(source.split()), len(target.split())
        if min(lengths) == 0:
            dropped[Reason.EMPTY_SIDE] += 1
        elif max(lengths) > MAXIMUM_TOKENS:
            dropped[Reason.OVER_LONG] += 1
        else:
            yield source.strip(), target.strip()


def read_splits(files: Mapping[str, Path], target: str, dropped: Dropped) -> dict[str, Pairs]:
    """Pairs by split, of files that are named by it: `train.en` and `train.de`, or `train.tsv`."""
    found = {}
    for split in dict.fromkeys(part.rpartition(".")[0] for part in files):
        if f"{split}.tsv" in files:
            pairs = table_rows(text_lines(files[f"{split}.tsv"]), dropped)
        else:
            sides = files[f"{split}.en"], files[f"{split}.{target}"]
            pairs = paired(*map(text_lines, sides), (str(sides[0]), str(sides[1])))
        found[split] = Pairs.of(usable(pairs, dropped))
    return found
