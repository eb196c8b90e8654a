"""The heads of models trained here, measured on a text, from which tables are computed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headbook.artefacts.heads import (
    DEFAULT,
    Choices,
    HeadsRun,
    Measured,
    WithEncoder,
    measured,
)
from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of, trained
from headbook.artefacts.texts import HELD_OUT, Text, held_out, treebank
from headbook.chapters.config import Config
from headbook.chapters.tables import model_labels
from headbook.corpora.readers import ParallelCorpus
from headbook.runs.store import Store


@dataclass(frozen=True)
class Measurement:
    """One model at one update, measured on one text."""

    trained: WithEncoder
    text: Text
    run: HeadsRun
    sums: Measured

    @property
    def labels(self) -> dict[str, object]:
        """The columns that tell this measurement's rows from all others'."""
        return {
            **model_labels(self.trained),
            "update": "best" if self.run.update is None else str(self.run.update),
            "text": self.text.name,
            "parser": self.text.parser,
        }


def models(config: Config, store: Store) -> list[TrainedModel]:
    """The config's models, trained where they are missing."""
    return [trained(run, store) for run in config.models()]


def text_of(model: WithEncoder, name: str, config: Config, store: Store) -> Text:
    """A text by its name: the model's held-out sentences, or a gold treebank."""
    return _text(model.corpus, name, config, store)


def _text(corpus: ParallelCorpus, name: str, config: Config, store: Store) -> Text:
    if name == HELD_OUT:
        return held_out(corpus, config.sentence_count, config.pipeline, store)
    return treebank(name, config.sentence_count)


def measurements(
    config: Config,
    store: Store,
    texts: Iterable[str] = (HELD_OUT,),
    updates: Iterable[int | None] = (None,),
    choices: Choices = DEFAULT,
    runs: Iterable[ModelRun] | None = None,
) -> Iterator[Measurement]:
    """Every model at every update (None: the best, 0: untrained) on every text.

    `runs` are the models to measure; all of the config's where None.
    """
    texts, updates = list(texts), list(updates)
    for run in config.models() if runs is None else runs:
        # read before the training: a parser that is missing is said now
        read = [_text(corpus_of(run.corpus, run.pairs), name, config, store) for name in texts]
        model = trained(run, store)
        for text in read:
            for update in updates:
                yield measure(model, text, store, choices, update)


def measure(
    model: WithEncoder,
    text: Text,
    store: Store,
    choices: Choices = DEFAULT,
    update: int | None = None,
) -> Measurement:
    """One model at one update on one text."""
    run = HeadsRun(text.name, update, choices)
    return Measurement(model, text, run, measured(model, text, run, store))
