"""The models of a profile, and what a page's parameters or a command override of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headbook.artefacts.encoders import EncoderRun, encoder_runs
from headbook.artefacts.language import (
    DroppingRun,
    LanguageRun,
    Setting,
    SharingRun,
    light,
    text_of,
)
from headbook.artefacts.model import ModelRun
from headbook.artefacts.recipe import SIZES
from headbook.artefacts.specialising import FACTOR, Specialising
from headbook.artefacts.texts import AUTO, find_pipeline
from headbook.chapters.profile import PROFILES, LayerSample, Profile
from headbook.corpora.readers import load
from headbook.types import UserError

Run = TypeVar("Run", ModelRun, LanguageRun, SharingRun, DroppingRun)


@dataclass(frozen=True)
class Config:
    """A profile by name and what is overridden of it; None leaves the profile's value."""

    profile: str = "quick"
    corpus: str | None = None
    size: str | None = None
    updates: int | None = None
    sentences: int | None = None
    seed: int | None = None
    pipeline: str = AUTO  # of spaCy, by name or folder; gold trees need none

    def __post_init__(self) -> None:
        for name in ("profile", "corpus", "size", "pipeline"):
            _name(name, getattr(self, name))
        _known("profile", self.profile, PROFILES)
        if self.size is not None:
            _known("size", self.size, SIZES)
        if self.pipeline != AUTO:
            find_pipeline(self.pipeline)  # said now, not after the training
        # of sentences at least two in each half: with one there is no interval
        for name, smallest in (("updates", 1), ("sentences", 4), ("seed", 0)):
            _whole(name, getattr(self, name), smallest)

    @property
    def preset(self) -> Profile:
        return PROFILES[self.profile]

    @property
    def sentence_count(self) -> int | None:
        return self.sentences or self.preset.sentences

    @property
    def texts(self) -> tuple[str, ...]:
        return self.preset.texts

    def models(self) -> tuple[ModelRun, ...]:
        """The profile's models, or the one the overrides describe."""
        models = self.preset.models
        if self.corpus is not None:
            models = _of_corpus(models, self.corpus)
        return self._changed(models)

    def emerging_models(self) -> tuple[ModelRun, ...]:
        """These models, and the profile's other widths of their corpora."""
        corpora = {model.corpus for model in self.models()}
        further = (model for model in self.preset.emerging if model.corpus in corpora)
        return tuple(dict.fromkeys((*self.models(), *self._changed(tuple(further)))))

    def _changed(self, models: tuple[Run, ...]) -> tuple[Run, ...]:
        if self.seed is not None:
            models = tuple(dict.fromkeys(model.with_seed(self.seed) for model in models))
        if self.size is not None:
            models = tuple(replace(model, size=SIZES[self.size]) for model in models)
        if self.updates is not None:
            models = tuple(
                replace(model, training=replace(model.training, updates=self.updates))
                for model in models
            )
        return models

    def pruned_models(self) -> tuple[ModelRun, ...]:
        """The models pruned with gates everywhere: each seed of one corpus, one of the others."""
        if self.corpus is not None:
            return self.models()
        corpora = self.preset.pruning.corpora
        first, *others = (_of_corpus(self.models(), corpus) for corpus in corpora)
        return (*first, *(models[0] for models in others))

    def encoder_pruned_models(self) -> tuple[ModelRun, ...]:
        """Corpora whose models are also pruned with gates in the encoder alone."""
        return self._named(self.pruned_models(), self.preset.pruning.encoder_corpora)

    def examined_models(self) -> tuple[ModelRun, ...]:
        """One pruned model per corpus, for measurements too costly to repeat over all seeds."""
        found = {model.corpus: model for model in reversed(self.pruned_models())}
        one_each = tuple(reversed(found.values()))
        return self._named(one_each, self.preset.pruning.examined_corpora)

    def scratch_models(self, *, alone: bool) -> tuple[ModelRun, ...]:
        """Corpora with from-scratch controls, gates in the encoder alone or everywhere."""
        pruning = self.preset.pruning
        corpora = pruning.scratch_corpora
        if alone and pruning.scratch_encoder_corpora is not None:
            corpora = pruning.scratch_encoder_corpora
        if corpora is None:
            return self.examined_models()
        return tuple(model for model in self.examined_models() if model.corpus in corpora)

    def _named(
        self, models: tuple[ModelRun, ...], corpora: tuple[str, ...] | None
    ) -> tuple[ModelRun, ...]:
        """The models of the named corpora; a corpus that overrides the profile's is always one."""
        if corpora is None or self.corpus is not None:
            return models
        return tuple(model for model in models if model.corpus in corpora)

    def language_models(self, setting: Setting | None = None) -> tuple[LanguageRun, ...]:
        """The profile's language models of one setting, or all; a corpus overrides that of each."""
        runs = tuple(run for run in self.preset.language if setting in (None, run.setting))
        if self.corpus is not None:
            text_of(self.corpus, 1)  # an unknown name is said now, not after the training
            runs = tuple(dict.fromkeys(replace(run, corpus=self.corpus) for run in runs))
        return tuple(dict.fromkeys(self._changed(runs)))

    def sharing_models(self) -> tuple[SharingRun, ...]:
        """Variants of the base model with different head counts."""
        return self._on_its_text(self._changed(self.preset.sharing))

    def dropping_models(self) -> tuple[DroppingRun, ...]:
        """Variants of the base model trained with DropHead."""
        return self._on_its_text(self._changed(self.preset.dropping))

    def varied_model(self) -> LanguageRun:
        """The base model whose variants pages 37 and 38 compare."""
        return self._on_its_text(self._changed((self.preset.varied,)))[0]

    def light_models(self) -> tuple[LanguageRun, ...]:
        """The base model, DeLighT's blocks, and a transformer with about as many weights."""
        return light(self.varied_model())

    def of_varied_seeds(self) -> "tuple[Config, ...]":
        """This config with each seed of the base model; with a seed given, that one alone."""
        first = self.varied_model().training.seed
        count = self.preset.varied_seeds if self.seed is None else 1
        return tuple(replace(self, seed=seed) for seed in range(first, first + count))

    def variants(self) -> tuple[LanguageRun, ...]:
        """All variants with every seed; none where the profile has no base model."""
        if self.preset.varied is None:
            return ()
        return tuple(
            run
            for each in self.of_varied_seeds()
            for run in (*each.light_models(), *each.sharing_models(), *each.dropping_models())
        )

    def _on_its_text(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        return tuple(replace(run, corpus=self.corpus or run.corpus) for run in runs)

    def encoder_models(self) -> tuple[EncoderRun, ...]:
        """Language models, left to right and masked, of the first model's source side."""
        if self.preset.layers is None:
            return ()
        seeds = self.preset.layers.seeds if self.seed is None else (self.seed,)
        return encoder_runs(self.one_model(), seeds)

    def layer_sample(self) -> LayerSample:
        """Amount of text for comparing layers. UserError where the profile compares none."""
        given = self.preset.layers
        if given is None:
            raise UserError(f"profile {self.profile} compares no layers; give it a sample")
        return given.of(self.sentences)

    def specialising(self) -> Specialising:
        """The base model and its changes; of a given corpus, a quarter of its pairs are the fewer.

        With a seed given, each is trained with that seed alone.
        """
        given = self.preset.specialising
        if given is None:
            raise UserError(f"profile {self.profile} has no model to change; give it one")
        (model,) = self._on_its_text(self._changed((given.model,)))
        pairs = given.pairs
        if self.corpus is not None:
            pairs = max(1, len(load(self.corpus, model.pairs).train) // FACTOR)
        return Specialising(model, pairs, given.seeds if self.seed is None else 1)

    def translation_models(self) -> tuple[ModelRun, ...]:
        """All translation models that pages without pruning train."""
        changed = self.preset.specialising and self.specialising().translation_models()
        return tuple(dict.fromkeys((*self.emerging_models(), *(changed or ()))))

    def masked_models(self) -> tuple[EncoderRun, ...]:
        """The masked language models beside which translation models are put."""
        return tuple(self.specialising().masked_models()) if self.preset.specialising else ()

    def one_model(self) -> ModelRun:
        """The first of the models, for tables of one."""
        return self.models()[0]


def _of_corpus(models: tuple[ModelRun, ...], corpus: str) -> tuple[ModelRun, ...]:
    """The profile's models of that corpus; where it has none, its first model's recipe on it."""
    named = tuple(model for model in models if model.corpus == corpus)
    if not named:
        load(corpus, 1)  # an unknown name or a faulty file is said now, not after the training
        return (replace(models[0], corpus=corpus),)
    return named


def _known(what: str, value: object, known: Mapping[str, Any]) -> None:
    if value not in known:
        raise UserError(f"unknown {what} {value!r}; known: {', '.join(known)}")


def _name(what: str, value: object) -> None:
    if value is None and what in ("corpus", "size"):
        return
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"{what} is {value!r}; give a name in quotes")


def _whole(name: str, value: object, smallest: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
        raise UserError(f"{name} is {value!r}; give a whole number of {smallest} or more")
