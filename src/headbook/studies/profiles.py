"""Profiles: named sets of parameters, from seconds a notebook to days on a GPU."""

from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from headbook.models.drop_head import DropHeadSchedule
from headbook.stages.language import DroppingRun, LanguageRun, Setting, SharingRun
from headbook.stages.model import ModelRun, Size
from headbook.stages.texts import HELD_OUT
from headbook.stages.watching import Watched
from headbook.training.config import Precision, TrainingConfig

SIZES = MappingProxyType(
    {
        "smoke": Size(layers=2, width=16, feed_forward=32, heads=2),
        "tiny": Size(layers=3, width=64, feed_forward=256, heads=8),
        "narrow": Size(layers=6, width=64, feed_forward=256, heads=8),
        "small": Size(layers=6, width=128, feed_forward=512, heads=8),
        "medium": Size(layers=6, width=256, feed_forward=1024, heads=8),
        "paper": Size(layers=6, width=512, feed_forward=2048, heads=8),
    }
)


@dataclass(frozen=True)
class Pruning:
    """What part 2 of the book does with a profile's models.

    Penalties are λ of one head, in nats a target token, whatever the number of gated blocks.
    """

    corpora: tuple[str, ...]  # whose models are swept; the first is swept with every seed
    encoder_penalties: tuple[float, ...]
    all_penalties: tuple[float, ...]
    training: TrainingConfig  # of a model that is pruned, from a trained one
    gate_factor: float = 100.0  # times the weights' learning rate; 1 in the paper's long training
    controls: int = 4  # counts of heads that have a random-head control
    scratch_corpora: tuple[str, ...] | None = None  # which have from-scratch controls; all if None
    scratch_encoder_corpora: tuple[str, ...] | None = None  # with gates in the encoder; or those
    scratch_encoder: int = 4  # counts that have one, gates in the encoder alone
    scratch_all: int = 4  # the same with gates everywhere
    encoder_corpora: tuple[str, ...] | None = None  # swept with gates in the encoder alone; or all
    examined_corpora: tuple[str, ...] | None = None  # whose heads are scored singly; all if None
    translated: int = 500  # sentences of a test set that masks are scored on, greedily
    examined: int = 500  # sentences that importance and relevance are measured on
    levels: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    orders: int = 3  # random orders beside one that was measured


@dataclass(frozen=True)
class Profile:
    """Which models a study reads, on which texts, with how many sentences at most."""

    name: str
    models: tuple[ModelRun, ...]
    pruning: Pruning
    texts: tuple[str, ...] = (HELD_OUT,)
    sentences: int | None = None
    emerging: tuple[ModelRun, ...] = ()  # of other widths, for when heads specialise
    language: tuple[LanguageRun, ...] = ()  # decoder-only, of both settings of the X-raying article
    sharing: tuple[SharingRun, ...] = ()  # beside the first as described, with other heads
    dropping: tuple[DroppingRun, ...] = ()  # the same trained with DropHead


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


ARTICLE = TrainingConfig(
    # its notebook's; the learning rate is constant there, see stages/language.py
    updates=222, tokens=64 * 256, label_smoothing=0.0, betas=(0.9, 0.999), epsilon=1e-8,
    validate_every=111,
)  # fmt: skip
RATES = (0.5, 0.16, 1.6)
"""Times width^-½: with 200 updates of warm-up and width 128 peaks of 0.003, 0.001 and 0.01."""


def _published(corpus: str, heads: int, dropout: float, seed: int = 0) -> LanguageRun:
    """The article's six layers of width 128 and its 5,002 pieces, on another text."""
    size, training = Size(6, 128, 512, heads), replace(ARTICLE, seed=seed)
    return LanguageRun(corpus, size, 5_002, dropout, training, Setting.PUBLISHED)


def _described(
    corpus: str, updates: int, scale: float, seed: int, size: str = "small"
) -> LanguageRun:
    training = TrainingConfig(
        updates=updates, scale=scale, warmup=200, label_smoothing=0.0, seed=seed
    )
    return LanguageRun(corpus, SIZES[size], 5_002, 0.1, training, watched=Watched(every=20))


def _dropping(base: LanguageRun) -> tuple[DroppingRun, ...]:
    """One rate, and the V whose turn is at the end of the warm-up."""
    given = {field.name: getattr(base, field.name) for field in fields(LanguageRun)}
    turn = base.training.warmup / base.training.updates
    schedules = (DropHeadSchedule(0.2, 0.2), DropHeadSchedule(0.2, 0.2, turn))
    return tuple(DroppingRun(**given, drop_head=schedule) for schedule in schedules)


def _sharing(base: LanguageRun, unequal: tuple[int, ...]) -> tuple[SharingRun, ...]:
    """Fewer and more heads at the same width, key-value heads halved down to one, unequal heads."""
    given = {field.name: getattr(base, field.name) for field in fields(LanguageRun)}
    sizes = [replace(base.size, heads=base.size.heads * by // 4) for by in (1, 2, 8)]
    halved = [base.size.heads >> by for by in range(1, base.size.heads.bit_length())]
    return (
        *(SharingRun(**given, key_value_heads=shared) for shared in halved),
        *(SharingRun(**given | {"size": size}) for size in sizes),
        SharingRun(**given | {"watched": Watched(every=0)}, layer_heads=unequal),
    )


def _small_language(
    size: Size, training: TrainingConfig, lines: int | None
) -> tuple[LanguageRun, ...]:
    """One of each setting, on the controlled corpus' English side."""
    small = replace(training, label_smoothing=0.0, scale=0.1, warmup=10)
    return tuple(
        LanguageRun(
            "controlled-sov", size, 2_000, 0.1, small, setting, context=32, lines=lines,
            watched=Watched(segments=4),
        )
        for setting in Setting
    )  # fmt: skip


SMOKE_LANGUAGE = _small_language(Size(2, 16, 32, 4), replace(SMOKE, updates=45), 4_000)
QUICK_LANGUAGE = _small_language(Size(6, 32, 128, 8), replace(QUICK, updates=80, tokens=1024), None)
RISING = (4, 5, 6, 6, 7, 8)
"""Heads by layer: half of eight at first and all at last, as OpenELM scales them."""
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
                sentences=40,
                emerging=(ModelRun("controlled-sov", Size(2, 32, 64, 2), 2_000, 0.1, SMOKE),),
                language=SMOKE_LANGUAGE,
                sharing=_sharing(SMOKE_LANGUAGE[-1], (2, 4)),
                dropping=_dropping(SMOKE_LANGUAGE[-1]),
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
                language=QUICK_LANGUAGE,
                sharing=_sharing(QUICK_LANGUAGE[-1], RISING),
                dropping=_dropping(QUICK_LANGUAGE[-1]),
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
                texts=(HELD_OUT, *TREEBANKS),
                emerging=(
                    _laptop("tatoeba-de", 6_000, 0.1, 800, size="narrow"),
                    _laptop("tatoeba-de", 6_000, 0.1, 800, size="medium"),
                ),
                # as far as they are trained: `full` names the article's other settings, more seeds
                language=(
                    *(_published("wikitext-2", heads, 0.1) for heads in (8, 16)),
                    *(_described("wikitext-2", 800, RATES[0], seed) for seed in range(3)),
                ),
                sharing=_sharing(_described("wikitext-2", 800, RATES[0], 0), RISING),
                dropping=_dropping(_described("wikitext-2", 800, RATES[0], 0)),
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
                texts=(HELD_OUT, *TREEBANKS),
                emerging=tuple(
                    _full(corpus, 0, size)
                    for corpus in ("msdocs-ru", "tatoeba-ru")
                    for size in ("narrow", "small", "medium")
                ),
                language=(
                    *(
                        _published("wikitext-2", heads, dropout)
                        for dropout in (0.1, 0.0)
                        for heads in (8, 2, 4, 16)
                    ),
                    *(
                        _described(corpus, 20_000, rate, seed, "paper")
                        for corpus in ("wikitext-2", "novels")
                        for rate, seed in (
                            *((RATES[0], seed) for seed in range(5)),
                            *((rate, 0) for rate in RATES[1:]),
                        )
                    ),
                ),
                sharing=_sharing(_described("wikitext-2", 20_000, RATES[0], 0, "paper"), RISING),
                dropping=_dropping(_described("wikitext-2", 20_000, RATES[0], 0, "paper")),
            ),
        )
    }
)
