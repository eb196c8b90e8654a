"""Any corpus by name or folder, as training, validation and test pairs."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headbook.corpora import controlled, download, opensubtitles, splits, tatoeba, wmt
from headbook.corpora.pairs import ALL, Pair, Pairs, Reader, read_splits, usable
from headbook.corpora.registry import ALONE, Corpus, CorpusKind, Place, corpus, is_path, registry
from headbook.corpora.report import Reason, Report
from headbook.types import UserError

__all__ = ["Pairs", "ParallelCorpus", "load"]

NONE = Pairs((), ())
VALID_OF_A_PART = 500
"""Validation pairs of each corpus of a mixture."""


@dataclass(frozen=True)
class ParallelCorpus:
    """English pairs of one corpus. The first of `tests` is the primary test set.

    `digest` is the SHA-256 of all pairs kept, so it is the same for the same text however it came
    here; `report` counts what was dropped.
    """

    name: str
    target_language: str
    train: Pairs
    valid: Pairs
    tests: dict[str, Pairs]
    digest: str
    report: Report


def load(name: str, limit: int | None = None) -> ParallelCorpus:
    """The corpus `name` of the registry, or of a folder holding train.en and train.xx (or .tsv).

    `limit` keeps the first `limit` training pairs. UserError in one line for whatever the user can
    mend.
    """
    if limit is not None and limit < 1:
        raise UserError(f"limit {limit} leaves no training pair: give a limit of 1 or more")
    if name not in registry() and is_path(name):
        return _folder(Path(name).expanduser(), limit)
    entry = corpus(name)
    if entry.kind in ALONE:
        raise UserError(
            f"{name} is a {entry.kind}, not pairs of sentences: "
            "`headbook corpora list` shows the parallel corpora"
        )
    if entry.kind is CorpusKind.GENERATED:
        return _controlled(entry, limit)
    if entry.kind is CorpusKind.MIXTURE:
        return _mixture(entry, limit)
    return _registered(entry, limit)


def _registered(entry: Corpus, limit: int | None) -> ParallelCorpus:
    report = Report()
    located = download.locate(entry.name)
    if located.place is Place.MIRROR:
        found = _clean(read_splits(located.files, entry.target, report), report)
    else:
        found = _public(entry, located.files, report)
    return _assembled(entry.name, entry.target, found, limit, report)


def _clean(found: Mapping[str, Iterable[Pair]], report: Report) -> dict[str, Pairs]:
    return {split: Pairs.of(usable(pairs, split, report)) for split, pairs in found.items()}


def _public(entry: Corpus, files: dict[str, Path], report: Report) -> dict[str, Pairs]:
    """Pairs of a public download; split by the rule, or beside the sets the entry names."""
    found = READERS[entry.reader](files, entry.target, report)
    if ALL not in found:
        return _clean(found, report)
    pairs = usable(found[ALL], ALL, report)
    named = {name: load(name) for name in (*entry.held_out, *entry.tests, entry.valid) if name}
    seen = {splits.key(line) for held in named.values() for line in _english(held)}
    if not entry.valid:
        return splits.split(pairs, splits.Rule(cap=entry.cap), seen, report)
    tests = {name: pairs for test in entry.tests for name, pairs in named[test].tests.items()}
    (valid,) = named[entry.valid].tests.values()
    return {"train": splits.train(pairs, entry.cap, seen, report), "valid": valid, **tests}


def _english(held: ParallelCorpus) -> Iterable[str]:
    return (line for pairs in held.tests.values() for line in pairs.source)


def _assembled(
    name: str, target: str, found: dict[str, Pairs], limit: int | None, report: Report
) -> ParallelCorpus:
    splits_left = dict(found)
    train = splits_left.pop("train", None)
    if train is not None and not len(train):
        why = "; ".join(report.lines()) or "the files are empty"
        raise UserError(f"{name}: no training pair is left ({why}): check the training files")
    train = (train or NONE).first(limit)
    valid = splits_left.pop("valid", NONE)
    digest = _digest({"train": train, "valid": valid, **splits_left})
    return ParallelCorpus(name, target, train, valid, splits_left, digest, report)


def _digest(found: Mapping[str, Pairs]) -> str:
    total = hashlib.sha256()
    for split, pairs in found.items():
        total.update(f"{split} {len(pairs)}\n".encode())
        for source, target in pairs:
            total.update(f"{source}\t{target}\n".encode())
    return total.hexdigest()


def _controlled(entry: Corpus, limit: int | None) -> ParallelCorpus:
    """The generated corpus, in its default sizes."""
    order = controlled.TargetOrder(entry.name.rpartition("-")[2])
    parts = dict(zip(("train", "valid", "test"), controlled.split(order), strict=True))
    found = {split: Pairs(part.source, part.target) for split, part in parts.items()}
    return _assembled(entry.name, entry.target, found, limit, Report())


def _mixture(entry: Corpus, limit: int | None) -> ParallelCorpus:
    """Several corpora as one: training pairs in hash order, so that the first are a random sample;
    validation by equal parts of each; the first test set of each under its corpus' name.

    A training pair whose English sentence is in any evaluation set of any part is dropped.
    """
    report, parts = Report(), [load(name) for name in entry.of]
    for part in parts:
        report.read.update(part.report.read)
        report.dropped.update(part.report.dropped)
    found = {
        "train": _merged(parts, report),
        "valid": Pairs.of(pair for part in parts for pair in part.valid.first(VALID_OF_A_PART)),
        **{part.name: next(iter(part.tests.values())) for part in parts},
    }
    return _assembled(entry.name, entry.target, found, limit, report)


def _merged(parts: Iterable[ParallelCorpus], report: Report) -> Pairs:
    held = {splits.key(line) for part in parts for line in (*part.valid.source, *_english(part))}
    pairs = [pair for part in parts for pair in part.train]
    kept = [pair for pair in pairs if splits.key(pair[0]) not in held]
    report.add("train", Reason.IN_EVALUATION, len(pairs) - len(kept))
    return Pairs.of(sorted(kept, key=lambda pair: splits.place("\t".join(pair))))


def _folder(folder: Path, limit: int | None) -> ParallelCorpus:
    """A user's own corpus: train, valid and test as `.en` and `.xx` files or as `.tsv`, or .gz."""
    if not folder.is_dir():
        wrong = "is a file, not a folder" if folder.exists() else "does not exist"
        raise UserError(
            f"{folder.absolute()} {wrong}: give the path of a folder with train.en and train.xx"
        )
    found = sorted(folder.iterdir())
    for path in found:
        if path.name.startswith(("train.", "valid.", "test.")) and path.is_dir():
            raise UserError(f"{path} is a folder: put a text file of that name there")
    files = {path.name.removesuffix(".gz"): path for path in found}
    target = _target_language(folder, files)
    sides = {part: part.rpartition(".") for part in files}
    parts = {
        part: files[part]
        for part, (split, _, language) in sides.items()
        if language in ("en", target, "tsv")
        and (split in ("train", "valid") or split.startswith("test"))
    }
    for part, path in parts.items():
        plain = folder / part
        if path != plain and plain.exists():
            raise UserError(f"{plain} and {path.name} are both there: remove one of them")
    tests = {sides[part][0] for part in parts} - {"train", "valid"}
    for split in ("train", "valid", *sorted(tests or {"test"})):
        _require(folder, parts, split, target)
    report = Report()
    splits_read = _clean(read_splits(parts, target, report), report)
    made = _assembled(str(folder), target, splits_read, limit, report)
    for split, pairs in {"valid": made.valid, **made.tests}.items():
        _require_pairs(folder, parts, split, pairs, report)
    return made


def _require_pairs(
    folder: Path, parts: Mapping[str, Path], split: str, pairs: Pairs, report: Report
) -> None:
    """An empty set would be met only after the training."""
    if len(pairs):
        return
    file = parts.get(f"{split}.tsv") or parts[f"{split}.en"]
    dropped = [line for line in report.lines() if line.startswith(f"{split}:")]
    why = "; ".join(dropped) or "the file is empty"
    raise UserError(f"{file}: no pair is left ({why}): put sentences there, on both sides")


def _require(folder: Path, parts: Mapping[str, Path], split: str, target: str) -> None:
    sides = [f"{split}.en", f"{split}.{target}"]
    missing = [side for side in sides if side not in parts]
    if missing and f"{split}.tsv" not in parts:
        raise UserError(
            f"{folder / missing[0]} is missing: a corpus folder holds {sides[0]} and {sides[1]} "
            f"(plain or .gz), or {split}.tsv"
        )


def _target_language(folder: Path, parts: Mapping[str, Path]) -> str:
    """The language in train.xx; `und` (ISO 639: undetermined) for a folder of .tsv files."""
    named = [part.removeprefix("train.") for part in parts if part.startswith("train.")]
    languages = [language for language in named if language not in ("en", "tsv")]
    if len(languages) > 1:
        raise UserError(
            f"{folder} holds training files in {', '.join(languages)}: keep one target "
            "language a folder"
        )
    if languages == ["csv"]:
        raise UserError(
            f"{folder} holds train.csv, and fields between commas are not read: save it as "
            "train.tsv, a tab between the two sides, or as train.en and train.xx"
        )
    if not languages and "tsv" not in named:
        raise UserError(
            f"{folder} holds no train.xx beside train.en, and no train.tsv: name the "
            "target side by its language, for example train.de"
        )
    return languages[0] if languages else "und"


READERS: dict[str, Reader] = {
    "lines": read_splits,
    "anki": tatoeba.read,
    "opus": opensubtitles.read,
    "wmt": wmt.read,
}
