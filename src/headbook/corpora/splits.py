"""The split rule for corpora without an official split: no English sentence in two splits."""

import hashlib
import heapq
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from headbook.corpora.pairs import Pair, Pairs
from headbook.corpora.report import Reason, Report
from headbook.types import UserError


@dataclass(frozen=True)
class Rule:
    """Sizes of the evaluation splits, and the most training pairs kept (0: all)."""

    test: int = 2_000
    valid: int = 2_000
    cap: int = 0


@cache
def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def key(english: str) -> str:
    """Normal form under which two English sentences count as one: lower-cased, white space
    single, punctuation dropped.
    """
    kept = "".join(letter for letter in english.lower() if not _is_punctuation(letter))
    return " ".join(kept.split())


def place(group: str) -> bytes:
    """Place of a group in the order of groups: pseudo-random, and never changed."""
    return hashlib.sha256(group.encode()).digest()


def split(
    pairs: Iterable[Pair], rule: Rule, held_out: set[str], report: Report
) -> dict[str, Pairs]:
    """Train, valid and test of pairs that have no split.

    Pairs are grouped by `key` of the English side, groups ordered by SHA-256 of the key. The first
    groups give test and then valid, one pair a group, all others train in that order, without
    repeated pairs and without groups whose key is in `held_out`.
    """
    groups = _groups(_first(pairs, rule), report)
    order = sorted(groups, key=place)
    wanted = rule.test + rule.valid
    if len(order) <= wanted:
        raise UserError(
            f"{len(order):,} different English sentences are too few for {rule.test:,} test and "
            f"{rule.valid:,} validation pairs and a training split: add pairs"
        )
    report.add("all", Reason.SAME_GROUP, sum(len(groups[group]) - 1 for group in order[:wanted]))
    return {
        "train": _without(groups, order[wanted:], held_out, report).first(rule.cap or None),
        "valid": Pairs.of(groups[group][0] for group in order[rule.test : wanted]),
        "test": Pairs.of(groups[group][0] for group in order[: rule.test]),
    }


def train(pairs: Iterable[Pair], cap: int, held_out: set[str], report: Report) -> Pairs:
    """Training pairs alone, in the order of `split`, for corpora evaluated on official sets."""
    rule = Rule(test=0, valid=0, cap=cap)
    groups = _groups(_first(pairs, rule, len(held_out)), report)
    return _without(groups, sorted(groups, key=place), held_out, report).first(cap or None)


def _first(pairs: Iterable[Pair], rule: Rule, spare: int = 0) -> Iterable[Pair]:
    """The first pairs in the order of groups, enough for the rule with its cap: a stream of tens
    of millions of pairs is never held whole.
    """
    if not rule.cap:
        return pairs
    # A twentieth more than asked for, for what grouping and held-out sentences take away.
    count = rule.cap + rule.cap // 20 + 2 * (rule.test + rule.valid) + spare
    return heapq.nsmallest(count, pairs, key=lambda pair: place(key(pair[0])))


def _groups(pairs: Iterable[Pair], report: Report) -> dict[str, list[Pair]]:
    groups: dict[str, dict[Pair, None]] = {}
    for pair in pairs:
        group = groups.setdefault(key(pair[0]), {})
        report.add("all", Reason.REPEATED, int(pair in group))
        group[pair] = None
    return {name: list(group) for name, group in groups.items()}


def _without(
    groups: dict[str, list[Pair]], order: Iterable[str], held_out: set[str], report: Report
) -> Pairs:
    kept = []
    for group in order:
        if group in held_out:
            report.add("all", Reason.IN_EVALUATION, len(groups[group]))
        else:
            kept += groups[group]
    return Pairs.of(kept)
