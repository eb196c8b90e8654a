"""Profiles: which models pages train and measure, in the files `notebooks/profiles/<name>.yml`.

A file's entry `trained` has the fields of `Profile`, and `seeds`, how many of each of `models` (the
first seed of all comes first). Models are named as in `data/models.toml`; the name of a family
stands for all its models. The other entries of a file are parameters of pages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from headbook import paths
from headbook.artefacts.catalogue import members, run, runs, training
from headbook.artefacts.language import DroppingRun, LanguageRun, SharingRun
from headbook.artefacts.model import ModelRun
from headbook.artefacts.specialising import Specialising
from headbook.artefacts.texts import HELD_OUT
from headbook.claims.ledger import PROFILES as BY_SIZE
from headbook.training.config import TrainingConfig
from headbook.types import UserError


@dataclass(frozen=True)
class Pruning:
    """Pruning of a profile's models, and amount of text on which their heads are scored.

    Penalties are λ of one head, in nats per target token, whatever the number of gated blocks.
    """

    corpora: tuple[str, ...]  # whose models are swept; the first is swept with every seed
    penalties: tuple[float, ...]
    training: TrainingConfig  # of a model that is pruned, from a trained one
    gate_factor: float = 100.0  # times the weights' learning rate; 1 in the paper's long training
    controls: int = 4  # counts of heads that have a random-head control
    scratch: int = 4  # counts that have a from-scratch control
    scratch_corpora: tuple[str, ...] | None = None  # which have from-scratch controls; all if None
    scratch_encoder_corpora: tuple[str, ...] | None = None  # with gates in the encoder; or those
    encoder_corpora: tuple[str, ...] | None = None  # swept with gates in the encoder alone; or all
    examined_corpora: tuple[str, ...] | None = None  # whose heads are scored singly; all if None
    tested: int | None = None  # sentences of a test set that pruned models translate; all if None
    translated: int = 500  # sentences of a test set that masks are scored on, greedily
    examined: int = 500  # sentences that importance and relevance are measured on
    levels: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    orders: int = 3  # random orders beside one that was measured


@dataclass(frozen=True)
class LayerSample:
    """Seeds of each model compared layer by layer, and amount of training text.

    Voita, Sennrich and Titov: 1,000 tokens, each 1,000 times or more, and 10,000 clusters.
    """

    sentences: int = 20_000
    kinds: int = 100  # most frequent tokens, for mutual information
    occurrences: int = 300  # of each of them, at most
    clusters: int = 300
    compared: int = 10_000  # tokens on which representations are compared
    copies: int = 2  # of each sentence, with other tokens masked
    seeds: tuple[int, ...] = (0, 1)

    def of(self, sentences: int | None) -> "LayerSample":
        """With another number of sentences, where one is given."""
        return self if sentences is None else replace(self, sentences=sentences)


@dataclass(frozen=True)
class Profile:
    """Models that pages read, their texts, and the largest number of sentences."""

    models: tuple[ModelRun, ...]
    pruning: Pruning
    texts: tuple[str, ...] = (HELD_OUT,)
    sentences: int | None = None
    emerging: tuple[ModelRun, ...] = ()  # of other widths, for when heads specialise
    specialising: Specialising | None = None  # and what makes them
    language: tuple[LanguageRun, ...] = ()  # decoder-only, of both settings of the X-raying article
    varied: LanguageRun | None = None  # as described, beside which its variants are put:
    sharing: tuple[SharingRun, ...] = ()  # with other heads
    dropping: tuple[DroppingRun, ...] = ()  # trained with DropHead
    varied_seeds: int = 1  # of that one and of its variants, from its own seed on
    layers: LayerSample | None = None  # for language models of the first model's source side
    joins: str | None = None  # the profile to whose published tables those of this one are added


def read(file: Path) -> Profile | None:
    """The profile in a file; None where it trains no models. UserError for a wrong entry."""
    try:
        entry = (yaml.safe_load(file.read_text("utf-8")) or {}).get("trained")
        return None if entry is None else _profile(_frozen(entry))
    except (AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError, UserError) as error:
        line = " ".join(str(error).split())
        raise UserError(f"{file}: the entry `trained` is wrong ({line}): mend it") from None


def _frozen(value: Any) -> Any:
    """Lists as tuples."""
    if isinstance(value, dict):
        return {name: _frozen(each) for name, each in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _profile(given: dict[str, Any]) -> Profile:
    readers = {
        **dict.fromkeys(("models", "emerging", "language", "sharing", "dropping"), _runs),
        "varied": run, "pruning": _pruning, "specialising": _specialising,
        "layers": lambda sample: LayerSample(**sample),
    }  # fmt: skip
    seeds = given.pop("seeds", 1)
    found = {name: readers.get(name, lambda each: each)(each) for name, each in given.items()}
    if seeds > 1:
        found["models"] = tuple(run.with_seed(n) for n in range(seeds) for run in found["models"])
    return Profile(**found)


def _runs(names: tuple[str, ...]) -> tuple[Any, ...]:
    return runs(*(name for given in names for name in members(given) or [given]))


def _pruning(given: dict[str, Any]) -> Pruning:
    return Pruning(**given | {"training": training(given["training"])})


def _specialising(given: dict[str, Any]) -> Specialising:
    return Specialising(**given | {"model": run(given["model"])})


class _Profiles(Mapping[str, Profile]):
    """The profiles by name, the small ones first; each file is read when it is first needed."""

    def __getitem__(self, name: str) -> Profile:
        found = _named(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        files = {file.stem for file in (paths.NOTEBOOKS / "profiles").glob("*.yml")}
        ordered = [*(name for name in BY_SIZE if name in files), *sorted(files - set(BY_SIZE))]
        return (name for name in ordered if _named(name))

    def __len__(self) -> int:
        return len(list(iter(self)))


@cache
def _named(name: str) -> Profile | None:
    file = paths.NOTEBOOKS / "profiles" / f"{name}.yml"
    return read(file) if file.exists() else None


PROFILES = _Profiles()
