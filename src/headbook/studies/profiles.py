"""Profiles: named sets of parameters, from seconds a notebook to days on a GPU."""

from dataclasses import dataclass
from types import MappingProxyType

from headbook.stages.model import ModelRun, Size
from headbook.stages.texts import HELD_OUT
from headbook.training.loop import Precision, TrainingConfig

SIZES = MappingProxyType(
    {
        "smoke": Size(layers=2, width=16, feed_forward=32, heads=2),
        "tiny": Size(layers=3, width=64, feed_forward=256, heads=8),
        "small": Size(layers=6, width=128, feed_forward=512, heads=8),
        "medium": Size(layers=6, width=256, feed_forward=1024, heads=8),
        "paper": Size(layers=6, width=512, feed_forward=2048, heads=8),
    }
)


@dataclass(frozen=True)
class Profile:
    """Which models a study reads, on which texts, with how many sentences at most."""

    name: str
    models: tuple[ModelRun, ...]
    texts: tuple[str, ...] = (HELD_OUT,)
    sentences: int | None = None


def _controlled(size: str, vocabulary: int, training: TrainingConfig) -> tuple[ModelRun, ...]:
    return tuple(
        ModelRun(f"controlled-{order}", SIZES[size], vocabulary, 0.1, training)
        for order in ("sov", "svo", "vso")
    )


def _laptop(corpus: str, vocabulary: int, dropout: float, updates: int, seed: int = 0) -> ModelRun:
    training = TrainingConfig(updates=updates, seed=seed)
    return ModelRun(corpus, SIZES["small"], vocabulary, dropout, training)


def _full(corpus: str, seed: int) -> ModelRun:
    """The paper's shape and schedule (appendix B), until a GPU has run for some hours."""
    training = TrainingConfig(
        updates=60_000, tokens=16_000, scale=4.0, warmup=16_000, validate_every=2_000, seed=seed
    )
    return ModelRun(corpus, SIZES["paper"], 32_000, 0.1, training)


SMOKE = TrainingConfig(
    updates=20, tokens=512, warmup=10, precision=Precision.FULL, validate_every=10, first_snapshot=8
)
QUICK = TrainingConfig(updates=500, tokens=2048, warmup=150, validate_every=100)
TREEBANKS = ("ud-ewt", "ud-pud-en")

PROFILES = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile("smoke", _controlled("smoke", 2_000, SMOKE), sentences=40),
            Profile("quick", _controlled("tiny", 2_000, QUICK)),
            Profile(
                "laptop",
                (
                    *(_laptop("multi30k-de", 6_000, 0.15, 1_500, seed) for seed in range(2)),
                    _laptop("msdocs-ru", 8_000, 0.1, 1_200),
                    _laptop("tatoeba-de", 6_000, 0.1, 800),
                    _laptop("tatoeba-fr", 6_000, 0.1, 800),
                ),
                texts=(HELD_OUT, *TREEBANKS),
            ),
            Profile(
                "full",
                tuple(
                    _full(f"{collection}-{target}", seed)
                    for seed in range(5)
                    for collection in ("msdocs", "tatoeba")
                    for target in ("ru", "de", "fr")
                ),
                texts=(HELD_OUT, *TREEBANKS),
            ),
        )
    }
)
