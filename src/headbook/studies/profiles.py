"""Profiles: named lists of the catalogue's models and budgets, seconds to days of GPU time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from headbook.artefacts.catalogue import members, run, runs, seeds
from headbook.artefacts.texts import HELD_OUT
from headbook.studies.encoder_runs import QUICK_SAMPLE, SMOKE_SAMPLE, LayerSample
from headbook.studies.profile import Profile, Pruning
from headbook.studies.regularised_runs import Regularising
from headbook.studies.specialising_runs import Specialising
from headbook.training.config import Precision, TrainingConfig
from headbook.training.regularising import Term

PENALTIES = (0.0003, 0.0006, 0.001, 0.002, 0.004, 0.007, 0.012, 0.025)
TREEBANKS = ("ud-ewt", "ud-pud-en")
PUBLISHED = "wikitext-2-published-dropout-{dropout}-heads-{heads}"


def _pruning(corpora: tuple[str, ...], training: TrainingConfig, **options: Any) -> Pruning:
    given = {"encoder_penalties": PENALTIES, "all_penalties": PENALTIES} | options
    return Pruning(corpora, training=training, **given)


def _variants(base: str) -> dict[str, Any]:
    """A language model and its variants with other heads, and with DropHead."""
    sharing = [
        *members(f"{base}-kv-{{key_value_heads}}"),
        *members(f"{base}-heads-{{heads}}"),
        f"{base}-rising",
    ]
    dropping = members(f"{base}-drophead-{{drop_head}}-{{schedule}}")
    return {"varied": run(base), "sharing": runs(*sharing), "dropping": runs(*dropping)}


def _smoke() -> Profile:
    training = TrainingConfig(
        updates=6, tokens=512, scale=0.1, warmup=2, precision=Precision.FULL, validate_every=10,
        first_snapshot=8,
    )  # fmt: skip
    return Profile(
        "smoke",
        runs("controlled-sov-16", "controlled-svo-16", "controlled-vso-16"),
        _pruning(
            ("controlled-sov",),
            training,
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
        regularising=Regularising(
            run("controlled-sov-16-short"),
            run("controlled-sov-lm-16-short"),
            (1.0,),
            terms=(Term.POSITIONS, Term.OUTPUTS),
            seeds=1,
        ),
        sentences=40,
        emerging=runs("controlled-sov-32"),
        specialising=Specialising(run("controlled-sov-16-short"), 200),
        language=runs("controlled-sov-lm-16-published", "controlled-sov-lm-16"),
        layers=SMOKE_SAMPLE,
        **_variants("controlled-sov-lm-16-wide"),
    )


def _quick() -> Profile:
    return Profile(
        "quick",
        runs("controlled-sov-64", "controlled-svo-64", "controlled-vso-64"),
        _pruning(
            ("controlled-sov",),
            TrainingConfig(updates=100, tokens=2048, scale=0.15, warmup=40, validate_every=100),
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
        regularising=Regularising(
            run("controlled-sov-64-short"),
            run("controlled-sov-lm-32-unwatched"),
            (0.1, 1.0),
            terms=(Term.SUBSPACE, Term.POSITIONS, Term.OUTPUTS, Term.CONTEXTS),
            seeds=1,
        ),
        specialising=Specialising(run("controlled-sov-64-short"), 1_000),
        language=runs("controlled-sov-lm-32-published", "controlled-sov-lm-32"),
        layers=QUICK_SAMPLE,
        **_variants("controlled-sov-lm-32"),
    )


def _laptop() -> Profile:
    return Profile(
        "laptop",
        runs(*seeds("multi30k-de-128"), "msdocs-ru-128", "tatoeba-de-128", "tatoeba-fr-128"),
        _pruning(
            ("multi30k-de", "tatoeba-de", "msdocs-ru"),
            TrainingConfig(updates=150, tokens=2048, scale=0.15, warmup=40, validate_every=25),
            # each is a whole training, cheapest with short sentences; one seed of a corpus
            scratch_corpora=("multi30k-de", "tatoeba-de"),
            scratch_encoder_corpora=("tatoeba-de",),
            # long sentences take as long as all the others: one sweep, no single heads
            encoder_corpora=("multi30k-de", "tatoeba-de"),
            examined_corpora=("multi30k-de", "tatoeba-de"),
        ),
        regularising=Regularising(run("multi30k-de-64"), run("wikitext-2-64"), (0.01, 0.1, 1.0)),
        texts=(HELD_OUT, *TREEBANKS),
        # short sentences and long ones
        emerging=runs("tatoeba-de-64", "tatoeba-de-256", "msdocs-ru-64", "msdocs-ru-256"),
        # a quarter of the pairs
        specialising=Specialising(run("tatoeba-de-64-half-batches"), 43_000, seeds=3),
        language=runs(
            *members(PUBLISHED),
            *seeds("wikitext-2-128"),
            *members("wikitext-2-128-rate-{scale}"),
            *seeds("novels-128"),
            "novels-128-rate-0.5",
        ),
        varied_seeds=3,
        layers=LayerSample(),
        **_variants("wikitext-2-128-short"),
    )


def _full() -> Profile:
    models = tuple(
        each.with_seed(seed) for seed in range(5) for each in runs(*members("{corpus}-512-long"))
    )
    return Profile(
        "full",
        models,
        _pruning(
            ("msdocs-ru", "tatoeba-ru", "tatoeba-de"),
            # the paper's regime: the schedule anew, until gates saturate
            replace(models[0].training, updates=20_000),
            gate_factor=1.0,
            translated=3_000,
            examined=3_000,
        ),
        regularising=Regularising(
            run("tatoeba-de-512-long"),
            run("wikitext-2-512-unwatched"),
            (0.01, 0.03, 0.1, 0.3, 1.0),
            rates=(0.05, 0.1, 0.2),
            seeds=5,
        ),
        texts=(HELD_OUT, *TREEBANKS),
        emerging=runs(*members("{corpus}-{width}-long")),
        specialising=Specialising(run("tatoeba-de-256-quarter"), 43_000, seeds=3),
        language=runs(
            *members(PUBLISHED),
            *seeds("wikitext-2-512"),
            "wikitext-2-512-rate-0.16",
            "wikitext-2-512-rate-1.6",
            *seeds("novels-512"),
            *members("novels-512-rate-{scale}"),
        ),
        varied_seeds=5,
        layers=LayerSample(),
        **_variants("wikitext-2-512-rate-0.16"),
    )


MAKERS: Mapping[str, Callable[[], Profile]] = {
    "smoke": _smoke, "quick": _quick, "laptop": _laptop, "full": _full,
}  # fmt: skip
_made = cache(lambda name: MAKERS[name]())


class _Profiles(Mapping[str, Profile]):
    """Each profile is made when it is first read: importing reads no file."""

    def __getitem__(self, name: str) -> Profile:
        return _made(name)

    def __contains__(self, name: object) -> bool:
        return name in MAKERS

    def __iter__(self) -> Iterator[str]:
        return iter(MAKERS)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(MAKERS))

    def __len__(self) -> int:
        return len(MAKERS)


PROFILES = _Profiles()
