"""The language models of the profiles: as published, as described, and their variants."""

from dataclasses import fields, replace

from headbook.artefacts.language import DelightRun, DroppingRun, LanguageRun, Setting, SharingRun
from headbook.artefacts.model import ModelRun, Size
from headbook.artefacts.watching import Watched
from headbook.models.drop_head import DropHeadSchedule
from headbook.training.config import TrainingConfig

ARTICLE = TrainingConfig(
    # its notebook's; the learning rate is constant there, see artefacts/language.py
    updates=222, tokens=64 * 256, label_smoothing=0.0, betas=(0.9, 0.999), epsilon=1e-8,
    validate_every=111,
)  # fmt: skip
DROPPED = (0.2, 0.1)
"""Rates of DropHead."""
SMALL = Size(layers=6, width=128, feed_forward=512, heads=8)
RATES = (0.5, 0.16, 1.6)
"""Times width^-½: with 200 updates of warm-up and width 128 peaks of 0.003, 0.001 and 0.01."""


def published(corpus: str, heads: int, dropout: float, seed: int = 0) -> LanguageRun:
    """The article's six layers of width 128 and its 5,002 pieces, on another text."""
    size, training = replace(SMALL, heads=heads), replace(ARTICLE, seed=seed)
    return LanguageRun(corpus, size, 5_002, dropout, training, Setting.PUBLISHED)


def published_grid(corpus: str) -> tuple[LanguageRun, ...]:
    """Every number of heads and dropout of the article, its own configuration first."""
    return tuple(
        published(corpus, heads, dropout) for dropout in (0.1, 0.0) for heads in (8, 2, 4, 16)
    )


def described(
    corpus: str, updates: int, scale: float, seed: int, size: Size = SMALL
) -> LanguageRun:
    """The article's text: causal, trained until it is a language model."""
    training = TrainingConfig(
        updates=updates, scale=scale, warmup=200, label_smoothing=0.0, seed=seed
    )
    return LanguageRun(corpus, size, 5_002, 0.1, training, watched=Watched(every=20))


def described_grid(
    corpus: str, updates: int, rates: tuple[float, ...], seeds: int, size: Size = SMALL
) -> tuple[LanguageRun, ...]:
    """Every seed at the first of these rates, and one at each of the others."""
    first, *others = rates
    return (
        *(described(corpus, updates, first, seed, size) for seed in range(seeds)),
        *(described(corpus, updates, rate, 0, size) for rate in others),
    )


def given(run: ModelRun | LanguageRun) -> dict[str, object]:
    """The fields of a run by name, for a run of another kind that is alike in them."""
    return {field.name: getattr(run, field.name) for field in fields(run)}


def turn_of(training: TrainingConfig) -> float:
    """Where a V of DropHead turns, as a share of the updates: at the end of the warm-up.

    A training that ends in its warm-up turns in the middle.
    """
    return min(training.warmup / training.updates, 0.5)


def dropping(base: LanguageRun) -> tuple[DroppingRun, ...]:
    """At one rate, and on the V whose turn is at the end of the warm-up."""
    same = given(base)
    turn = turn_of(base.training)
    schedules = [DropHeadSchedule(rate, rate, at) for rate in DROPPED for at in (None, turn)]
    return tuple(DroppingRun(**same, drop_head=schedule) for schedule in schedules)


def sharing(base: LanguageRun, unequal: tuple[int, ...]) -> tuple[SharingRun, ...]:
    """Fewer and more heads at the same width, key-value heads halved down to one, unequal heads."""
    same = given(base)
    sizes = [replace(base.size, heads=base.size.heads * by // 4) for by in (1, 2, 8)]
    halved = [base.size.heads >> by for by in range(1, base.size.heads.bit_length())]
    return (
        *(SharingRun(**same, key_value_heads=shared) for shared in halved),
        *(SharingRun(**same | {"size": size}) for size in sizes),
        SharingRun(**same | {"watched": Watched(every=0)}, layer_heads=unequal),
    )


def light(base: LanguageRun) -> tuple[LanguageRun, ...]:
    """A model, one of DeLighT's blocks at its width, and one of ours at three quarters of it.

    The last two have about as many weights in their blocks.
    """
    same = given(base)
    same["watched"] = Watched(every=0)  # a single head has no other
    size = base.size
    thinner = replace(size, width=size.width * 3 // 4, feed_forward=size.feed_forward * 3 // 4)
    return (
        base,
        DelightRun(**same | {"size": replace(size, heads=1)}),
        LanguageRun(**same | {"size": thinner}),
    )


def small_language(
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


RISING = (4, 5, 6, 6, 7, 8)
"""Heads by layer: half of eight at first and all at last, as OpenELM scales them."""
