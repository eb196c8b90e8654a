"""The two kinds of model that are trained by name: what decides one, what it reads, its scores.

A translation model, and a masked language model of the source side of its corpus: Voita, Sennrich
and Titov (2019) compare encoders of one shape that learnt from one text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from headbook import recipes
from headbook.corpora.masked import masked_copies
from headbook.corpora.readers import Pairs, load
from headbook.machine import accelerator
from headbook.models.decoding import Search, translate_corpus
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.recipes import MASKED, Recipe
from headbook.runs.seeds import derived
from headbook.runs.store import Ingredients, Stage
from headbook.text.batches import EOS, EncodedPair
from headbook.text.subwords import Subwords
from headbook.training import processes
from headbook.training.config import Precision, TrainingConfig
from headbook.training.scoring import bleu, nats
from headbook.types import UserError

LONGEST = 200
"""Pairs with more subwords on a side are left out of training, as in the paper's code."""
LONGEST_EVALUATED = 512
"""Lines with more subwords are cut where a model is evaluated: 200 words have fewer, but a line
without spaces may have 20,000, and attention takes their square."""
COPIES = 10
"""Of each training sentence, differently masked: as many as BERT's own data preparation makes."""
TRAINING = "training"
"""The use of text to learn from; text for validation and test is cut, not left out."""


@dataclass(frozen=True)
class Size:
    """The shape of a model apart from its vocabularies."""

    layers: int = 6
    width: int = 128
    feed_forward: int = 512
    heads: int = 8


SIZES = {
    "smoke": Size(layers=2, width=16, feed_forward=32, heads=2),
    "tiny": Size(layers=3, width=64, feed_forward=256, heads=8),
    "small": Size(layers=6, width=128, feed_forward=512, heads=8),
    "medium": Size(layers=6, width=256, feed_forward=1024, heads=8),
    "paper": Size(layers=6, width=512, feed_forward=2048, heads=8),
}
"""Sizes by name, as the catalogue takes them."""


@dataclass(frozen=True)
class ModelRun:
    """Everything that decides a trained translation model: the run store's key material."""

    stage: ClassVar[Stage] = Stage("model", version=1)
    sides: ClassVar[tuple[str, ...]] = ("source", "target")

    corpus: str
    size: Size
    vocabulary: int
    dropout: float
    training: TrainingConfig
    pairs: int | None = None  # the first so many training pairs; all where None
    search: Search = field(default_factory=Search)  # for the translation of test sets

    @property
    def text(self) -> "ModelRun":
        """The model of this text and shape that translates: itself."""
        return self

    def config(self, source: int, target: int) -> TransformerConfig:
        """The network for so many subwords of both sides."""
        size = self.size
        return TransformerConfig(source, target, size.layers, size.layers, size.width,
                                 size.feed_forward, size.heads, self.dropout)  # fmt: skip

    def examples(self, pairs: Pairs, sides: Sequence[Subwords], use: str) -> list[EncodedPair]:
        """Both sides as ids ending in EOS."""
        source, target = sides
        encoded = [source.encode(pairs.source), target.encode(pairs.target)]
        if use != TRAINING:
            encoded = [cut(rows, use) for rows in encoded]
        whole = list(zip(*encoded, strict=True))
        kept = [pair for pair in whole if use != TRAINING or max(map(len, pair)) <= LONGEST]
        _say(len(whole) - len(kept), f"pairs over {LONGEST} subwords left out of {use}")
        return kept

    def score(
        self, network: Transformer, tests: Mapping[str, Pairs], sides: Sequence[Subwords],
        folder: Path,
    ) -> None:  # fmt: skip
        """Translates test sets; translations and BLEU go to the folder, as NAME.txt and bleu.csv.

        The table has a row per test set and casing, with sacrebleu's signatures.
        """
        source, target = sides
        rows = []
        for name, pairs in tests.items():
            encoded = cut(source.encode(pairs.source), name)
            translations = translate_corpus(network, encoded, target, self.search)
            (folder / f"{name}.txt").write_text("\n".join(translations) + "\n")
            for casing in ("cased", "lower"):
                found = asdict(bleu(translations, pairs.target, lowercase=casing == "lower"))
                rows.append({"test": name, "casing": casing, **found})
        pd.DataFrame(rows).to_csv(folder / "bleu.csv", index=False)


@dataclass(frozen=True)
class EncoderRun:
    """Everything that decides a masked language model of a text's source side.

    Of `text`, a translation model, count corpus, subwords, size and dropout; `training` is this
    model's own.
    """

    stage: ClassVar[Stage] = Stage("encoder", version=1)
    sides: ClassVar[tuple[str, ...]] = ("source",)

    text: ModelRun
    training: TrainingConfig
    objective: str = "masked language model"

    def config(self, source: int, target: int = 0) -> TransformerConfig:
        """An encoder without a decoder, with one id more than the subwords, the mask's."""
        size, ids = self.text.size, source + 1
        return TransformerConfig(
            ids, ids, size.layers, 0, size.width, size.feed_forward, size.heads, self.text.dropout
        )

    def examples(self, pairs: Pairs, sides: Sequence[Subwords], use: str) -> list[EncodedPair]:
        """Sentences with some tokens masked, and these tokens, by the seed of the use."""
        (source,) = sides
        encoded = [row for row in source.encode(pairs.source) if len(row) <= LONGEST]
        seed = derived(self.training.seed, f"masks of {use}")
        return masked_copies(encoded, len(source), COPIES if use == TRAINING else 1, seed)

    def score(
        self, network: Transformer, tests: Mapping[str, Pairs], sides: Sequence[Subwords],
        folder: Path,
    ) -> None:  # fmt: skip
        """Nats per hidden token of the first test set, in scores.json."""
        held = self.examples(next(iter(tests.values())), sides, "test")
        found = {"test_nats": nats(network, held, self.training.tokens)}
        (folder / "scores.json").write_text(json.dumps(found))


Run = ModelRun | EncoderRun


def cut(rows: Sequence[list[int]], use: str) -> list[list[int]]:
    """The first LONGEST_EVALUATED subwords of each line, EOS the last of them."""
    long = sum(len(row) > LONGEST_EVALUATED for row in rows)
    _say(long, f"lines of {use} cut to their first {LONGEST_EVALUATED} subwords")
    last = LONGEST_EVALUATED - 1
    return [row if len(row) <= last + 1 else [*row[:last], EOS] for row in rows]


def _say(count: int, what: str) -> None:
    """What of the text that was given is not used."""
    if count and processes.is_first():
        print(f"{count} {what}")


def run(name: str) -> Run:
    """The run of a model by its name; UserError for no model, and for a recipe that is wrong."""
    found = recipes.recipe(name)
    try:
        return _run(found, dict(found.fields))
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(
            f"data/models.toml: the entry [{found.family}] is wrong ({error}): mend it"
        ) from None


def _run(recipe: Recipe, table: dict[str, Any]) -> Run:
    """TypeError for a field that there is not, KeyError for one that is missing."""
    names = {field.name for field in fields(TrainingConfig)} - {"seed"}
    of_training = {name: table.pop(name) for name in sorted(names & table.keys())}
    if "precision" in of_training:
        of_training["precision"] = Precision(of_training["precision"])
    search = Search(**{name: table.pop(name) for name in ("beam", "longest") if name in table})
    training = TrainingConfig(**of_training, seed=recipe.seed)
    text = ModelRun(
        recipe.corpus, _size(table), training=training, search=search,
        pairs=table.pop("examples", None), **table,
    )  # fmt: skip
    if recipe.task != MASKED:
        return text
    # Whichever seed it has, it is beside the translation model of seed 0.
    beside = replace(text, training=replace(training, seed=0))
    return EncoderRun(beside, replace(training, label_smoothing=0.0))


def _size(table: dict[str, Any]) -> Size:
    """By name, or as [layers, width, feed-forward width, heads]; of another width or number."""
    size = table.pop("size")
    shape = SIZES[size] if isinstance(size, str) else Size(*size)
    width, heads = table.pop("width", shape.width), table.pop("heads", shape.heads)
    return Size(shape.layers, width, shape.feed_forward * width // shape.width, heads)


corpus_of = lru_cache(maxsize=4)(load)
"""The corpus, read once per process: several models may learn from it."""


def ingredients(run: Run) -> Ingredients:
    """The run's key material, for which its corpus is read.

    The arithmetic decides a model too: its precision, and the class of device.
    """
    policy = {"precision": str(run.training.precision), "device": accelerator()}
    digest = corpus_of(run.text.corpus, run.text.pairs).digest
    return Ingredients(run.stage, run, {"corpus": digest}, policy)


def initial(run: Run, folder: Path) -> Transformer:
    """The untrained model, in eval mode, of the subwords in the folder: the same for one seed."""
    counts = [len(Subwords.load(folder / f"{side}.json")) for side in run.sides]
    return untrained(run.config(*counts), run.training.seed)


def untrained(config: TransformerConfig, seed: int) -> Transformer:
    """The network before its first update, in eval mode: the same for one seed."""
    torch.manual_seed(derived(seed, "initial weights"))
    return Transformer(config).eval()
