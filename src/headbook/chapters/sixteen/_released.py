"""A loaded translation model with heads closed: the texts and runs of this part's pages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from headbook import paths
from headbook.artefacts.released_masked import (
    Mask,
    ReleasedMasked,
    ReleasedMaskedRun,
    released_masked,
)
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import released_claim
from headbook.chapters.words import TITLES
from headbook.corpora.pairs import Pairs
from headbook.corpora.readers import load as corpus
from headbook.heads.importance import Form, importance, l2_normalised
from headbook.looking.load import load
from headbook.looking.ours import OurModel
from headbook.models.gates import all_heads
from headbook.models.translator import Translator
from headbook.released.firefox import FirefoxModel, load_firefox
from headbook.runs.store import Store
from headbook.syntax.treebank import read_conllu
from headbook.training.paired import increase
from headbook.types import HeadId, Kind, UserError

SAMPLE, TEST = "ewt-sample", "ntrex-pt"
SAMPLES = 10_000
"""Resamples of a paired test at least; of more than 66 heads `enough` for Holm's correction."""
SIGNIFICANT = 0.01
"""The level of Michel et al."""
STUDENTS = ("firefox-en-pt", "firefox-pt-en")
FIRST = "firefox-en-pt"
"""The model of the pages' sentences, whose translations the other direction reads."""
SHORT = {Kind.ENCODER: "", Kind.DECODER: "decoder ", Kind.CROSS: "cross "}

Scores = Mapping[Kind, Float[Tensor, "layer head"]]


@dataclass(frozen=True)
class Subject:
    """A translation model and the texts that its heads are closed on.

    A student of English and Portuguese reads the bundled sentences, or from Portuguese their
    translations by its twin, and NTREX, each from its own side. A model trained here reads the
    bundled sentences and the first test set of its own corpus.
    """

    model: Translator
    store: Store

    @classmethod
    def of(cls, name: str, store: Store) -> "Subject":
        """UserError for a model of other languages or of another kind."""
        model = load(name)
        if isinstance(model, OurModel):
            return cls(model, store)
        if not isinstance(model, FirefoxModel):
            raise UserError(
                f"{name} is not translated with here: name {' or '.join(STUDENTS)}, or a "
                "translation model trained here"
            )
        if set(model.languages) != {"en", "pt"}:
            raise UserError(
                f"{name} translates {' to '.join(model.languages)}, and references are known for "
                f"en and pt: name {' or '.join(STUDENTS)}"
            )
        return cls(model, store)

    @cached_property
    def heads(self) -> tuple[HeadId, ...]:
        return tuple(all_heads(self.model.network))

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of attention that the model has."""
        own = {head.kind for head in self.heads}
        return tuple(kind for kind in Kind if kind in own)

    @property
    def one_out(self) -> tuple[Mask, ...]:
        """The whole model, and the model without each head."""
        return ((), *((head,) for head in self.heads))

    def on_sample(self, masks: Sequence[Mask], sentences: int) -> ReleasedMasked:
        """Losses on the model's own translations of the bundled sentences."""
        run = ReleasedMaskedRun(tuple(masks), translated=False)
        return released_masked(self.model, self.sample(sentences), None, run, self.store)

    @property
    def english(self) -> bool:
        """Whether the model reads English."""
        return self.model.languages[0] == "en"

    @property
    def sample_name(self) -> str:
        """The text of `sample` as tables name it."""
        return SAMPLE if self.english else f"{SAMPLE}, translated"

    def sample(self, sentences: int) -> list[str]:
        """The first bundled sentences, in the language that the model reads."""
        trees = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")
        _check("sentences", sentences, len(trees))
        texts = [tree.text for tree in trees[:sentences]]
        return texts if self.english else load_firefox(FIRST).translate(texts)

    def on_test(
        self, masks: Sequence[Mask], sentences: int, *, referenced: bool = True
    ) -> ReleasedMasked:
        """BLEU and losses on the first sentences of the test text."""
        _check("tested", sentences)
        pairs = self._tests[self.test]
        _check("tested", sentences, len(pairs))
        pairs = pairs.first(sentences)
        sides = [list(pairs.source), list(pairs.target)]
        sources, references = sides if self.english else reversed(sides)
        run = ReleasedMaskedRun(tuple(masks), referenced=referenced)
        return released_masked(self.model, sources, references, run, self.store)

    @cached_property
    def test(self) -> str:
        """The test text as tables name it; UserError where the model's corpus is not recorded."""
        return next(iter(self._tests)) if isinstance(self.model, OurModel) else TEST

    @cached_property
    def _tests(self) -> Mapping[str, Pairs]:
        if not isinstance(self.model, OurModel):
            return {TEST: next(iter(corpus(TEST).tests.values()))}
        if not self.model.corpus:
            raise UserError(f"{self.model.name} has no record of its corpus: name another model")
        return corpus(self.model.corpus).tests

    def importance(self, sentences: int) -> Scores:
        """Michel et al.'s importance in their code's form, on the model's own translations of the
        bundled sentences, at length 1 in every layer."""
        texts = self.sample(sentences)
        batches = self.model.batches(texts, self.model.translate(texts), tokens=1024)
        sums = importance(self.model.network, batches, 0, self.model.losses)
        return {kind: l2_normalised(sums[f"{Form.POSITION}/{kind}"].ratio()) for kind in self.kinds}


def _check(name: str, given: int, most: int | None = None) -> None:
    if given < 1:
        raise UserError(f"{name} is {given}: give 1 or more")
    if most is not None and given > most:
        raise UserError(f"{name} is {given}, and the text has {most:,} sentences: give fewer")


def label(head: HeadId) -> str:
    """`L6H5`, `cross L1H3` of cross-attention, `decoder L1H1` of the decoder's self-attention."""
    return f"{SHORT[head.kind]}L{head.layer + 1}H{head.head + 1}"


def named(labels: Sequence[str], heads: Sequence[HeadId]) -> tuple[HeadId, ...]:
    """The heads of these labels, all of them for none; UserError for one the model lacks."""
    known = {label(head): head for head in heads}
    if unknown := [each for each in labels if each not in known]:
        raise UserError(
            f"the model has no head {unknown[0]!r}: heads are called L1H1, cross L1H1, or "
            "decoder L1H1"
        )
    return tuple(known[each] for each in labels) or tuple(heads)


def head_columns(heads: Sequence[HeadId]) -> pd.DataFrame:
    """Kind, layer and head counted from one, and the label; one row per head."""
    rows = [(str(head.kind), head.layer + 1, head.head + 1, label(head)) for head in heads]
    return pd.DataFrame(rows, columns=["kind", "layer", "head", "label"])


def losses_added(found: ReleasedMasked) -> pd.DataFrame:
    """One row per mask but the first, the whole model: nats per token added, with intervals.

    `own` is of the model's own translations, `reference` of references where they were given.
    """
    columns: dict[str, list[float]] = {}
    known = {
        "own": (found.own, found.own_tokens),
        "reference": (found.reference, found.reference_tokens),
    }
    for name, (nats, tokens) in known.items():
        if nats is None or tokens is None:
            continue
        tests = [increase(each, nats[0], tokens) for each in nats[1:]]
        columns[f"{name}_added"] = [test.difference for test in tests]
        columns[f"{name}_low"] = [test.low for test in tests]
        columns[f"{name}_high"] = [test.high for test in tests]
    return pd.DataFrame(columns)


def whole(subject: Subject, found: ReleasedMasked, text: str) -> dict[str, object]:
    """The whole model on a text: one row of the table `wholes`."""
    row: dict[str, object] = {
        "model": subject.model.name, "text": text, "sentences": len(found.own_tokens),
        "own_loss": float(found.own_loss[0]),
    }  # fmt: skip
    if found.reference is not None:
        row["reference_loss"] = float(found.reference_loss[0])
    if found.statistics is not None:
        row["bleu"] = float(found.bleu[0])
    return row


def of_model(tables: Tables, model: str) -> Tables:
    """The rows of one model, in every table that names models."""
    return {name: table[table["model"] == model] if "model" in table else table
            for name, table in tables.items()}  # fmt: skip


def by_model(tables: Tables, facts: Callable[[Tables], Facts]) -> Facts:
    """The facts of every model of the table `released`: `en_bleu`, `pt_bleu`."""
    found: Facts = {}
    for model in dict.fromkeys(tables["released"]["model"]):
        start = words.prefix(model)
        mine = facts(of_model(tables, model))
        found |= {f"{start}_{name}": value for name, value in mine.items()}
    return found


def titled(rows: pd.DataFrame) -> pd.DataFrame:
    """With models named as figures and tables do."""
    return rows.assign(model=rows["model"].replace(TITLES))


def claim(name: str, subject: Subject, value: float, low: float = np.nan, high: float = np.nan,
          baseline: float = np.nan) -> dict[str, object]:  # fmt: skip
    """A row of the claims table: a released model has converged, so no gate is closed."""
    model = subject.model
    return released_claim(name, model.name, value, low, high, baseline=baseline,
                          target=model.languages[1])  # fmt: skip
