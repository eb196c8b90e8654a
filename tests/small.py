"""Small models that several tests of stages measure and train."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from headbook.artefacts.encoders import EncoderRun, Objective
from headbook.artefacts.language import LanguageRun, Setting
from headbook.artefacts.model import ModelRun, Size, TrainedModel, corpus_of
from headbook.artefacts.watching import Watched
from headbook.corpora.subwords import Subwords
from headbook.heads.measure import RatioSums
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision


def sentences() -> list[tuple[str, ...]]:
    """Seven words each, always of the same tree: `the dog sees a red ball often`."""
    return [
        ("the", subject, verb, "a", colour, thing, adverb)
        for subject in ("dog", "cat", "sister")
        for verb in ("sees", "likes", "finds")
        for colour in ("red", "small")
        for thing in ("ball", "tree", "house")
        for adverb in ("often", "here")
    ]


def write_pairs(folder: Path, pairs: Iterable[tuple[str, str]], train: int, valid: int) -> Path:
    """A corpus of one's own, English to German: so many pairs to train and validate on, and a test
    set of all others."""
    folder.mkdir(parents=True, exist_ok=True)
    sides, end = list(zip(*pairs, strict=True)), train + valid
    for language, lines in zip(("en", "de"), sides, strict=True):
        parts = {"train": lines[:train], "valid": lines[train:end], "test": lines[end:]}
        for name, part in parts.items():
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in part))
    return folder


def backwards(rows: Iterable[Sequence[str]]) -> list[tuple[str, str]]:
    """Words translated as themselves backwards: text that no grammar will move."""
    return [(" ".join(row), " ".join(row[::-1])) for row in rows]


def write_corpus(folder: Path) -> Path:
    return write_pairs(folder, backwards(sentences()), 80, 8)


def untrained_model(folder: Path) -> TrainedModel:
    """Two heads of width 8 in one layer, in 32 bits, with subwords and without an update."""
    size = Size(layers=1, width=16, feed_forward=32, heads=2)
    training = TrainingConfig(2, 200, warmup=4, precision=Precision.FULL, validate_every=1,
                              first_snapshot=1)  # fmt: skip
    run = ModelRun(str(write_corpus(folder / "corpus")), size, 60, 0.0, training)
    corpus = corpus_of(run.corpus, run.pairs)
    for side in ("source", "target"):
        Subwords.train(getattr(corpus.train, side), 60).save(folder / f"{side}.json")
    return TrainedModel(run, folder, corpus)


def same(one: Mapping[str, RatioSums], other: Mapping[str, RatioSums]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name].numerator, other[name].numerator)
        and torch.equal(one[name].denominator, other[name].denominator)
        for name in one
    )


TRAINING = TrainingConfig(
    updates=8, tokens=64, scale=0.5, warmup=4, label_smoothing=0.0, precision=Precision.FULL,
    validate_every=4, first_snapshot=64,
)  # fmt: skip
LARGER = replace(TRAINING, tokens=128)
TEXT = ModelRun("controlled-sov", Size(2, 16, 32, 4), 200, 0.1, LARGER, pairs=60)


def language_run(setting: Setting = Setting.DESCRIBED, **changed: object) -> LanguageRun:
    given = LanguageRun(
        "controlled-sov", Size(2, 16, 32, 4), 200, 0.1, TRAINING, setting, context=16,
        lines=60, watched=Watched(segments=2, dense=3, every=2),
    )  # fmt: skip
    return replace(given, **changed)


def encoder_run(objective: Objective = Objective.MASKED, **changed: object) -> EncoderRun:
    return EncoderRun(replace(TEXT, **changed), objective, LARGER)
