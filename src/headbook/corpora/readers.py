"""Any corpus of pairs by name or folder, as training, validation and test pairs."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headbook import paths
from headbook.corpora import archives, controlled, splits
from headbook.corpora.pairs import Dropped, Pair, Pairs, Reason, read_splits, usable
from headbook.text import download
from headbook.text.registry import ALONE, Corpus, CorpusKind, corpus, is_path, registry
from headbook.types import UserError

__all__ = ["Pairs", "ParallelCorpus", "load"]

NONE = Pairs((), ())
VALID_OF_A_PART = 500
"""Validation pairs of each corpus of a mixture."""


@dataclass(frozen=True)
class ParallelCorpus:
    """English pairs of one corpus. The first of `tests` is the primary test set.

    `digest` is the SHA-256 of all pairs kept, so it is the same for the same text however it came
    here; `dropped` counts the pairs that were left out.
    """

    name: str
    target_language: str
    train: Pairs
    valid: Pairs
    tests: dict[str, Pairs]
    digest: str
    dropped: Dropped

    @property
    def left_out(self) -> str:
        """What was left out and why, in one line; empty where nothing was."""
        return _left_out(self.dropped)


def load(name: str, limit: int | None = None) -> ParallelCorpus:
    """The corpus `name` of the registry, or of a folder holding train.en and train.xx (or .tsv).

    `limit` keeps the first `limit` training pairs. UserError in one line for whatever the user can
    mend.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit {limit} leaves no training pair: give a limit of 1 or more")
    if name not in registry() and is_path(name):
        return _folder(paths.expanded(name), limit)
    entry = corpus(name)
    if entry.kind in ALONE:
        raise UserError(
            f"{name} is a {entry.kind}, not pairs of sentences: "
            "`headbook corpora list` shows the parallel corpora"
        )
    dropped: Dropped = Counter()
    if entry.kind is CorpusKind.GENERATED:
        found = dict(zip(("train", "valid", "test"), controlled.split(), strict=True))
    elif entry.kind is CorpusKind.MIXTURE:
        found = _mixture(entry, dropped)
    else:
        files = download.locate(name)
        if all("." in part for part in files):  # each is named by its split
            found = read_splits(files, entry.target, dropped)
        else:
            pairs = usable(archives.read(files, entry.target, dropped), dropped)
            found = _by_rule(entry, pairs, dropped)
    return _assembled(name, entry.target, found, limit, dropped)


def _by_rule(entry: Corpus, pairs: Iterable[Pair], dropped: Dropped) -> dict[str, Pairs]:
    """Pairs of a public download; split by the rule, or beside the sets the entry names."""
    named = {name: load(name) for name in (*entry.held_out, *entry.tests, entry.valid) if name}
    seen = {splits.key(line) for held in named.values() for line in _english(held)}
    if not entry.valid:
        return splits.split(pairs, seen, dropped, entry.cap)
    train = splits.split(pairs, seen, dropped, entry.cap, test=0, valid=0)["train"]
    tests = {name: pairs for test in entry.tests for name, pairs in named[test].tests.items()}
    (valid,) = named[entry.valid].tests.values()
    return {"train": train, "valid": valid, **tests}


def _english(held: ParallelCorpus) -> Iterable[str]:
    return (line for pairs in held.tests.values() for line in pairs.source)


def _assembled(
    name: str, target: str, found: dict[str, Pairs], limit: int | None, dropped: Dropped
) -> ParallelCorpus:
    tests = dict(found)
    train, valid = tests.pop("train", None), tests.pop("valid", NONE)
    if train is not None and not len(train):
        why = _left_out(dropped) or "the files are empty"
        raise UserError(f"{name}: no training pair is left ({why}): check the training files")
    train = (train or NONE).first(limit)
    digest = _digest({"train": train, "valid": valid, **tests})
    return ParallelCorpus(name, target, train, valid, tests, digest, dropped)


def _left_out(dropped: Dropped) -> str:
    told = [f"{count:,}: {reason}" for reason, count in dropped.items() if count]
    return f"pairs left out ({'; '.join(told)})" if told else ""


def _digest(found: Mapping[str, Pairs]) -> str:
    total = hashlib.sha256()
    for split, pairs in found.items():
        total.update(f"{split} {len(pairs)}\n".encode())
        for source, target in pairs:
            total.update(f"{source}\t{target}\n".encode())
    return total.hexdigest()


def _mixture(entry: Corpus, dropped: Dropped) -> dict[str, Pairs]:
    """Several corpora as one: training pairs in hash order, so that the first are a random sample;
    validation by equal parts of each; the first test set of each under its corpus' name.

    A training pair whose English sentence is in any evaluation set of any part is left out.
    """
    parts = [load(name) for name in entry.of]
    held = {splits.key(line) for part in parts for line in (*part.valid.source, *_english(part))}
    pairs = [pair for part in parts for pair in part.train]
    kept = [pair for pair in pairs if splits.key(pair[0]) not in held]
    for part in parts:
        dropped.update(part.dropped)
    dropped[Reason.IN_EVALUATION] += len(pairs) - len(kept)
    return {
        "train": Pairs.of(sorted(kept, key=lambda pair: splits.place("\t".join(pair)))),
        "valid": Pairs.of(pair for part in parts for pair in part.valid.first(VALID_OF_A_PART)),
        **{part.name: next(iter(part.tests.values())) for part in parts},
    }


def _folder(folder: Path, limit: int | None) -> ParallelCorpus:
    """A user's own corpus: train, valid and test as `.en` and `.xx` files or as `.tsv`, or .gz."""
    if not folder.is_dir():
        raise UserError(
            f"{folder.absolute()} is not a folder: give the path of one with train.en and train.xx"
        )
    there = {path.name.removesuffix(".gz"): path for path in sorted(folder.iterdir())}
    files = {part: there[part] for part in there if part.startswith(("train.", "valid.", "test"))}
    target = _target_language(folder, files)
    read = {part: path for part, path in files.items() if part.endswith((".en", ".tsv"))}
    splits_there = {part.rpartition(".")[0] for part in read} | {"train", "valid"}
    tests = sorted(splits_there - {"train", "valid"}) or ["test"]
    for split in ("train", "valid", *tests):
        if f"{split}.tsv" in files:
            continue
        for side in (f"{split}.en", f"{split}.{target}"):
            if side not in files:
                raise UserError(
                    f"{folder / side} is missing: a corpus folder holds {split}.en and "
                    f"{split}.{target} (plain or .gz), or {split}.tsv"
                )
            read[side] = files[side]
    dropped: Dropped = Counter()
    found = read_splits(read, target, dropped)
    for split in ("valid", *tests):  # an empty set would be met only after the training
        if not len(found[split]):
            raise UserError(f"{folder}: no pair of {split} is left: put sentences on both sides")
    return _assembled(str(folder), target, found, limit, dropped)


def _target_language(folder: Path, files: Iterable[str]) -> str:
    """The language in train.xx; `und` (ISO 639: undetermined) for a folder of .tsv files."""
    endings = {part.rpartition(".")[2] for part in files if part.startswith("train.")}
    languages = sorted(endings - {"en", "tsv"})
    if len(languages) > 1 or not endings - {"en"}:
        raise UserError(
            f"{folder} holds training files of {len(languages)} target languages "
            f"({', '.join(languages)}): keep one, such as train.de beside train.en, or train.tsv"
        )
    return languages[0] if languages else "und"
