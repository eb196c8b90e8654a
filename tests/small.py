"""Small corpora and models that several tests measure and train."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from headbook.looking.measured import KEY, measured
from headbook.looking.ours import OurModel
from headbook.models.decoding import Search
from headbook.text.subwords import Subwords
from headbook.training.config import Precision, TrainingConfig
from headbook.training.models import EncoderRun, ModelRun, Size, initial


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


def translation_run(corpus: Path, updates: int = 6, dropout: float = 0.1) -> ModelRun:
    """One layer of two heads, width 16, in 32 bits; greedy search of a few pieces."""
    training = TrainingConfig(updates, 200, warmup=4, precision=Precision.FULL, validate_every=2,
                              first_snapshot=2)  # fmt: skip
    search = Search(1, longest=0.2)
    return ModelRun(str(corpus), Size(1, 16, 32, 2), 60, dropout, training, search=search)


def masked_run(corpus: Path) -> EncoderRun:
    text = translation_run(corpus)
    return EncoderRun(text, text.training)


def results(store: Path, stage: str = "model") -> dict[str, object]:
    """Every file of the one finished run but its record; the curve without its seconds."""
    (record,) = (store / stage).glob("*/run.json")
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in record.parent.iterdir() if path != record
    }
    curve = pd.read_csv(record.parent / "curve.csv").drop(columns="seconds")
    return files | {"curve.csv": curve.to_csv()}


def untrained_model(folder: Path) -> OurModel:
    """Two heads of width 8 in one layer, with subwords and without an update."""
    run = translation_run(write_corpus(folder / "corpus"), dropout=0.0)
    sides = [Subwords.train([" ".join(row) for row in rows], 60)
             for rows in (sentences(), [row[::-1] for row in sentences()])]  # fmt: skip
    for side, subwords in zip(("source", "target"), sides, strict=True):
        subwords.save(folder / f"{side}.json")
    return OurModel("tiny", "here", ("en", "de"), initial(run, folder), *sides)


def told(table: pd.DataFrame, **changes: object) -> pd.DataFrame:
    """A table of `hb.measure` that says this of itself."""
    found = table.copy()
    found.attrs[KEY] = replace(measured(table), **changes)
    return found


def ngrams(good: float, sentences: int = 30) -> np.ndarray:
    """BLEU's counts of sentences with about so large a share of right n-grams, some with more."""
    lengths = 50 + np.arange(sentences) % 5
    totals = lengths[:, None] - np.arange(4)
    right = np.round(totals * good * np.linspace(0.6, 1, sentences)[:, None]).astype(np.int64)
    return np.column_stack([lengths, lengths, right, totals])
