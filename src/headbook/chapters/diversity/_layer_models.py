"""Three models of one text, and the tokens on which their layers are compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headbook.artefacts.encoders import EncoderModel, Objective, encoder_model
from headbook.artefacts.model import LONGEST, TrainedModel, trained
from headbook.chapters.config import Config
from headbook.chapters.profile import LayerSample
from headbook.corpora.batches import PAD, EncodedPair, in_order
from headbook.corpora.masked import Masking, masked_copies
from headbook.corpora.plain_text import NO_SOURCE
from headbook.heads.collect import collect
from headbook.heads.diversity_pairs import PairCosine, dissimilarity, mean_of_pairs
from headbook.heads.four_metrics import head_outputs
from headbook.layers.occurrences import frequent, occurrences
from headbook.layers.states import States, flat, token_states
from headbook.models.transformer import Transformer
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.types import Kind

WATCHED = 200
"""Sentences on which the dissimilarity of heads is measured."""
BATCH_TOKENS = 2048


class Task(StrEnum):
    """Training objective of a model of the text."""

    TRANSLATION = "translation"
    LANGUAGE = str(Objective.LEFT_TO_RIGHT)
    MASKED = str(Objective.MASKED)


@dataclass(frozen=True)
class Subject:
    """One trained model; of a translation model only the encoder is looked at."""

    task: Task
    made: TrainedModel | EncoderModel

    @property
    def seed(self) -> int:
        return self.made.run.training.seed

    @property
    def labels(self) -> dict[str, object]:
        """The columns model, corpus, target and seed of its claims."""
        corpus = Path(self.made.corpus.name).name
        name = f"{corpus} {self.task} s{self.seed}"
        return {"model": name, "corpus": corpus, "target": "en", "seed": self.seed}

    @cached_property
    def model(self) -> Transformer:
        return self.made.model()

    def head_dissimilarity(self, sentences: Sequence[Sequence[int]]) -> list[float]:
        """Scale-free output dissimilarity by layer, mean over pairs of heads."""
        kind = Kind.DECODER if self.task is Task.LANGUAGE else Kind.ENCODER
        measure = PairCosine(kind, projections=head_outputs(self.model, kind), replicates=0)
        pairs = [_pair(row, kind) for row in sentences[:WATCHED]]
        collect(self.model, list(in_order(pairs, BATCH_TOKENS)), [measure], progress=list)
        return mean_of_pairs(dissimilarity(measure.compute())).tolist()


def _pair(row: Sequence[int], kind: Kind) -> EncodedPair:
    """A sentence on the side where it is looked at, and next to nothing on the other."""
    return (NO_SOURCE, row) if kind is Kind.DECODER else (row, NO_SOURCE)


def subjects(config: Config, store: Store) -> list[Subject]:
    """Each task with each seed; models are trained where they are missing."""
    runs = config.encoder_models()
    seeds = dict.fromkeys(run.training.seed for run in runs)
    translating = [trained(config.one_model().with_seed(seed), store) for seed in seeds]
    others = [encoder_model(run, store) for run in runs]
    return [
        *(Subject(Task.TRANSLATION, each) for each in translating),
        *(Subject(Task(str(each.run.objective)), each) for each in others),
    ]


@dataclass(frozen=True)
class Text:
    """Sentences as ids, and which of their tokens are looked at: the same for every model."""

    sentences: list[list[int]]
    vocabulary: int
    sample: LayerSample

    @cached_property
    def tokens(self) -> Int[Tensor, " token"]:
        """Without EOS, as `flat`."""
        return flat(self.sentences)

    @cached_property
    def frequent(self) -> Int[Tensor, " kind"]:
        return frequent(self.tokens, self.sample.kinds)

    @cached_property
    def behind_another(self) -> Bool[Tensor, " token"]:
        """Tokens that are not the first of their sentence."""
        return flat([[0, *[1] * (len(row) - 2), 0] for row in self.sentences]) > 0

    def occurrences(self) -> Int[Tensor, " chosen"]:
        """Places of frequent tokens, none at a sentence's start, where nothing predicts them."""
        most, seed = self.sample.occurrences, derived(0, "occurrences")
        return occurrences(self.tokens, self.frequent, most, seed, self.behind_another)

    def compared(self, among: Int[Tensor, " candidate"], most: int) -> Int[Tensor, " chosen"]:
        """Of these places so many, drawn at random; no more than the sample says."""
        generator = torch.Generator().manual_seed(derived(0, "compared"))
        drawn = torch.randperm(len(among), generator=generator)[: min(most, self.sample.compared)]
        return among[drawn].sort().values

    def everywhere(self) -> Int[Tensor, " chosen"]:
        """Places drawn at random among all."""
        return self.compared(torch.arange(len(self.tokens)), self.sample.compared)

    def changed(self, masking: Masking) -> "Changed":
        """Some of the tokens of each sentence masked; random ones are frequent tokens."""
        among = tuple(self.frequent.tolist())
        pairs = masked_copies(
            self.sentences, self.vocabulary, self.sample.copies, derived(0, "changed"),
            replace(masking, among=among),
        )  # fmt: skip
        wanted = flat([target for _, target in pairs])
        most, seed = self.sample.occurrences, derived(0, "occurrences")
        places = occurrences(wanted, self.frequent, most, seed, wanted != PAD)
        return Changed([list(shown) for shown, _ in pairs], places, wanted[places])


@dataclass(frozen=True)
class Changed:
    """Sentences with masked tokens: the places that are looked at, and what stood there."""

    sentences: list[list[int]]
    places: Int[Tensor, " chosen"]
    wanted: Int[Tensor, " chosen"]

    @property
    def shown(self) -> Int[Tensor, " chosen"]:
        return flat(self.sentences)[self.places]

    def states(self, model: Transformer) -> States:
        return token_states(model, self.sentences, self.places)


def text_for(config: Config, subject: TrainedModel) -> Text:
    """The first training sentences, as many as the profile looks at."""
    sample = config.layer_sample()
    lines = subject.corpus.train.source[: sample.sentences]
    encoded = [row for row in subject.source.encode(lines) if 1 < len(row) <= LONGEST]
    return Text(encoded, len(subject.source), sample)
