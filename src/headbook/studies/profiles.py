"""Profiles: named sets of parameters, from seconds a notebook to days on a GPU."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from headbook.artefacts.model import ModelRun, Size
from headbook.artefacts.texts import HELD_OUT
from headbook.models.decoding import Search
from headbook.studies.encoder_runs import QUICK_SAMPLE, SMOKE_SAMPLE, LayerSample
from headbook.studies.language_runs import (
    RATES,
    RISING,
    SMALL,
    described,
    described_grid,
    dropping,
    published_grid,
    sharing,
    small_language,
)
from headbook.studies.profile import Profile, Pruning
from headbook.studies.regularised_runs import unwatched
from headbook.studies.specialising_runs import Specialising
from headbook.training.config import Precision, TrainingConfig
from headbook.training.regularising import Term

SIZES = MappingProxyType(
    {
        "smoke": Size(layers=2, width=16, feed_forward=32, heads=2),
        "tiny": Size(layers=3, width=64, feed_forward=256, heads=8),
        "narrow": Size(layers=6, width=64, feed_forward=256, heads=8),
        "small": SMALL,
        "medium": Size(layers=6, width=256, feed_forward=1024, heads=8),
        "paper": Size(layers=6, width=512, feed_forward=2048, heads=8),
    }
)


def _controlled(size: str, vocabulary: int, training: TrainingConfig) -> tuple[ModelRun, ...]:
    return tuple(
        ModelRun(f"controlled-{order}", SIZES[size], vocabulary, 0.1, training)
        for order in ("sov", "svo", "vso")
    )


def _laptop(
    corpus: str, vocabulary: int, dropout: float, updates: int, seed: int = 0, size: str = "small"
) -> ModelRun:
    training = TrainingConfig(updates=updates, seed=seed)
    return ModelRun(corpus, SIZES[size], vocabulary, dropout, training)


def _full(corpus: str, seed: int, size: str = "paper") -> ModelRun:
    """The paper's schedule (appendix B), until a GPU has run for some hours."""
    training = TrainingConfig(
        updates=60_000, tokens=16_000, scale=4.0, warmup=16_000, validate_every=2_000, seed=seed
    )
    return ModelRun(corpus, SIZES[size], 32_000, 0.1, training)


SMOKE = TrainingConfig(
    updates=20, tokens=512, warmup=10, precision=Precision.FULL, validate_every=10, first_snapshot=8
)
QUICK = TrainingConfig(updates=500, tokens=2048, warmup=150, validate_every=100)
PENALTIES = (0.0003, 0.0006, 0.001, 0.002, 0.004, 0.007, 0.012, 0.025)


def _pruning(corpora: tuple[str, ...], training: TrainingConfig, **options: Any) -> Pruning:
    given = {"encoder_penalties": PENALTIES, "all_penalties": PENALTIES} | options
    return Pruning(corpora, training=training, **given)


SMOKE_LANGUAGE = small_language(Size(2, 16, 32, 4), replace(SMOKE, updates=45), 4_000)
QUICK_LANGUAGE = small_language(Size(6, 32, 128, 8), replace(QUICK, updates=80, tokens=1024), None)
SMOKE_TRANSLATION = ModelRun(
    "controlled-sov", SIZES["smoke"], 2_000, 0.1,
    replace(SMOKE, updates=8, warmup=4), pairs=500,
    # an untrained model ends no sentence by itself
    search=Search(beam=1, longest=0.1),
)  # fmt: skip
QUICK_TRANSLATION = ModelRun(
    "controlled-sov", SIZES["tiny"], 2_000, 0.1,
    replace(QUICK, updates=80, scale=0.4, warmup=20, tokens=1024),
    search=Search(beam=1),
)  # fmt: skip
LAPTOP_TRANSLATION = ModelRun(
    "multi30k-de", SIZES["narrow"], 6_000, 0.15,
    # a peak of 0.005, after a quarter
    TrainingConfig(updates=400, scale=0.4, warmup=100, validate_every=100),
    search=Search(beam=1),
)  # fmt: skip
LAPTOP_SPECIALISING = replace(
    _laptop("tatoeba-de", 6_000, 0.1, 800, size="narrow"),
    # half a batch, so that four times as many updates are affordable
    training=TrainingConfig(updates=800, tokens=2048),
    search=Search(beam=1),
)
FULL_SPECIALISING = _full("tatoeba-de", 0, "medium")
SMOKE_VARIED = replace(SMOKE_LANGUAGE[-1], size=Size(2, 32, 64, 4))
LAPTOP_VARIED = described("wikitext-2", 400, RATES[1], 0)
"""At the low rate: at the first, some of its variants never learn more than token frequencies."""
FULL_VARIED = described("wikitext-2", 20_000, RATES[1], 0, SIZES["paper"])
TREEBANKS = ("ud-ewt", "ud-pud-en")

PROFILES = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                "smoke",
                _controlled("smoke", 2_000, SMOKE),
                _pruning(
                    ("controlled-sov",),
                    replace(SMOKE, updates=6, scale=0.1, warmup=2),
                    encoder_penalties=(0.01, 0.5),
                    all_penalties=(0.01, 0.5),
                    controls=1,
                    scratch_encoder=1,
                    scratch_all=1,
                    translated=10,
                    examined=20,
                    levels=(0.0, 0.5, 0.9),
                    orders=1,
                ),
                regularising=unwatched(
                    SMOKE_TRANSLATION,
                    small_language(Size(2, 16, 32, 4), replace(SMOKE, updates=8), 500)[-1],
                    (1.0,),
                    terms=(Term.POSITIONS, Term.OUTPUTS),
                    seeds=1,
                ),
                sentences=40,
                emerging=(ModelRun("controlled-sov", Size(2, 32, 64, 2), 2_000, 0.1, SMOKE),),
                specialising=Specialising(SMOKE_TRANSLATION, 200),
                language=SMOKE_LANGUAGE,
                varied=SMOKE_VARIED,
                sharing=sharing(SMOKE_VARIED, (2, 4)),
                dropping=dropping(SMOKE_VARIED),
                layers=SMOKE_SAMPLE,
            ),
            Profile(
                "quick",
                _controlled("tiny", 2_000, QUICK),
                _pruning(
                    ("controlled-sov",),
                    replace(QUICK, updates=100, scale=0.15, warmup=40),
                    encoder_penalties=(0.01, 0.05),
                    all_penalties=(0.01, 0.05),
                    controls=1,
                    scratch_encoder=1,
                    scratch_all=1,
                    translated=100,
                    examined=100,
                    levels=(0.0, 0.25, 0.5, 0.75, 0.9),
                    orders=1,
                ),
                regularising=unwatched(
                    QUICK_TRANSLATION,
                    QUICK_LANGUAGE[-1],
                    (0.1, 1.0),
                    terms=(Term.SUBSPACE, Term.POSITIONS, Term.OUTPUTS, Term.CONTEXTS),
                    seeds=1,
                ),
                specialising=Specialising(QUICK_TRANSLATION, 1_000),
                language=QUICK_LANGUAGE,
                varied=QUICK_LANGUAGE[-1],
                sharing=sharing(QUICK_LANGUAGE[-1], RISING),
                dropping=dropping(QUICK_LANGUAGE[-1]),
                layers=QUICK_SAMPLE,
            ),
            Profile(
                "laptop",
                (
                    *(_laptop("multi30k-de", 6_000, 0.15, 1_500, seed) for seed in range(3)),
                    _laptop("msdocs-ru", 8_000, 0.1, 1_200),
                    _laptop("tatoeba-de", 6_000, 0.1, 800),
                    _laptop("tatoeba-fr", 6_000, 0.1, 800),
                ),
                _pruning(
                    ("multi30k-de", "tatoeba-de", "msdocs-ru"),
                    TrainingConfig(
                        updates=150, tokens=2048, scale=0.15, warmup=40, validate_every=25
                    ),
                    # each is a whole training, cheapest with short sentences; one seed of a corpus
                    scratch_corpora=("multi30k-de", "tatoeba-de"),
                    scratch_encoder_corpora=("tatoeba-de",),
                    # long sentences take as long as all the others: one sweep, no single heads
                    encoder_corpora=("multi30k-de", "tatoeba-de"),
                    examined_corpora=("multi30k-de", "tatoeba-de"),
                ),
                regularising=unwatched(
                    LAPTOP_TRANSLATION,
                    replace(
                        described("wikitext-2", 400, RATES[1], 0, SIZES["narrow"]), context=128
                    ),
                    (0.01, 0.1, 1.0),
                ),
                texts=(HELD_OUT, *TREEBANKS),
                # short sentences and long ones
                emerging=(
                    _laptop("tatoeba-de", 6_000, 0.1, 800, size="narrow"),
                    _laptop("tatoeba-de", 6_000, 0.1, 800, size="medium"),
                    _laptop("msdocs-ru", 8_000, 0.1, 1_200, size="narrow"),
                    _laptop("msdocs-ru", 8_000, 0.1, 1_200, size="medium"),
                ),
                # a quarter of the pairs
                specialising=Specialising(LAPTOP_SPECIALISING, 43_000, seeds=3),
                language=(
                    *published_grid("wikitext-2"),
                    # seeds at the rate that does best on validation text
                    *described_grid("wikitext-2", 800, RATES, 3),
                    *described_grid("novels", 800, (RATES[1], RATES[0]), 3),
                ),
                varied=LAPTOP_VARIED,
                varied_seeds=3,
                sharing=sharing(LAPTOP_VARIED, RISING),
                dropping=dropping(LAPTOP_VARIED),
                layers=LayerSample(),
            ),
            Profile(
                "full",
                tuple(
                    _full(f"{collection}-{target}", seed)
                    for seed in range(5)
                    for collection in ("msdocs", "tatoeba")
                    for target in ("ru", "de", "fr")
                ),
                _pruning(
                    ("msdocs-ru", "tatoeba-ru", "tatoeba-de"),
                    # the paper's regime: the schedule anew, until gates saturate
                    TrainingConfig(
                        updates=20_000,
                        tokens=16_000,
                        scale=4.0,
                        warmup=16_000,
                        validate_every=2_000,
                    ),
                    gate_factor=1.0,
                    translated=3_000,
                    examined=3_000,
                ),
                regularising=unwatched(
                    _full("tatoeba-de", 0),
                    described("wikitext-2", 20_000, RATES[0], 0, SIZES["paper"]),
                    (0.01, 0.03, 0.1, 0.3, 1.0),
                    rates=(0.05, 0.1, 0.2),
                    seeds=5,
                ),
                texts=(HELD_OUT, *TREEBANKS),
                emerging=tuple(
                    _full(corpus, 0, size)
                    for corpus in ("msdocs-ru", "tatoeba-ru")
                    for size in ("narrow", "small", "medium")
                ),
                specialising=Specialising(
                    replace(
                        FULL_SPECIALISING,
                        training=replace(FULL_SPECIALISING.training, updates=15_000),
                    ),
                    43_000,
                    seeds=3,
                ),
                language=(
                    *published_grid("wikitext-2"),
                    *described_grid("wikitext-2", 20_000, RATES, 5, SIZES["paper"]),
                    *described_grid("novels", 20_000, RATES, 5, SIZES["paper"]),
                ),
                varied=FULL_VARIED,
                sharing=sharing(FULL_VARIED, RISING),
                dropping=dropping(FULL_VARIED),
                varied_seeds=5,
                layers=LayerSample(),
            ),
        )
    }
)
