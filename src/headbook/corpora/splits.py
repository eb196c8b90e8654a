"""The split rule for corpora without an official split: no English sentence in two splits."""

import hashlib
import heapq
from collections.abc import Iterable
from unicodedata import category

from headbook.corpora.pairs import Dropped, Pair, Pairs, Reason
from headbook.types import UserError


def key(english: str) -> str:
    """Normal form under which two English sentences count as one: lower-cased, white space
    single, punctuation dropped.
    """
    kept = "".join(letter for letter in english.lower() if category(letter)[0] != "P")
    return " ".join(kept.split())


def place(group: str) -> bytes:
    """Place of a group in the order of groups: pseudo-random, and never changed."""
    return hashlib.sha256(group.encode()).digest()


def split(
    pairs: Iterable[Pair],
    held_out: set[str],
    dropped: Dropped,
    cap: int = 0,
    test: int = 2_000,
    valid: int = 2_000,
) -> dict[str, Pairs]:
    """Train, valid and test of pairs that have no split; train alone for sizes of 0.

    Pairs are grouped by `key` of the English side, groups ordered by SHA-256 of the key. The first
    groups give test and then valid, one pair a group, all others train in that order, without
    repeated pairs and without groups whose key is in `held_out`, the first `cap` of them (0: all).
    UserError where nothing is left for training.
    """
    wanted = test + valid
    if cap:
        # A stream of tens of millions of pairs is never held whole; a twentieth more than asked
        # for stands in for what grouping and held-out sentences take away.
        count = cap + cap // 20 + 2 * wanted + len(held_out)
        pairs = heapq.nsmallest(count, pairs, key=lambda pair: place(key(pair[0])))
    groups: dict[str, dict[Pair, None]] = {}
    for pair in pairs:
        group = groups.setdefault(key(pair[0]), {})
        dropped[Reason.REPEATED] += pair in group
        group[pair] = None
    order = sorted(groups, key=place)
    if len(order) <= wanted:
        raise UserError(
            f"{len(order):,} different English sentences are too few for {test:,} test and "
            f"{valid:,} validation pairs and a training split: add pairs"
        )
    evaluated = [next(iter(groups[group])) for group in order[:wanted]]
    dropped[Reason.SAME_GROUP] += sum(len(groups[group]) - 1 for group in order[:wanted])
    kept: list[Pair] = []
    for group in order[wanted:]:
        if group in held_out:
            dropped[Reason.IN_EVALUATION] += len(groups[group])
        else:
            kept += groups[group]
    return {
        "train": Pairs.of(kept).first(cap or None),
        "valid": Pairs.of(evaluated[test:]),
        "test": Pairs.of(evaluated[:test]),
    }
