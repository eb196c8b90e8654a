"""Page 15, models trained here: the roles by target language."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements
from headbook.chapters.specialised_heads._head_tables import best_margins
from headbook.chapters.tables import claim_row
from headbook.corpora.registry import collection
from headbook.heads.roles import Role, Thresholds, held_roles
from headbook.runs.store import Store
from headbook.statistics import interval

THRESHOLDS = Thresholds()
UNDETERMINED = "xx"
"""The target language of an invented corpus, which is then told by the end of its name."""
ANY = "any role"


def trained_here(config: Config, store: Store) -> Tables:
    """Number of heads with each role, by target language."""
    found = list(measurements(config, store, updates=(None, 0)))
    models = [Roles.of(each) for each in found]
    best = [each for each in models if each.measurement.run.update is None]
    return {
        "counts": pd.DataFrame([row for each in models for row in _counts(each)]),
        "claims": pd.DataFrame([*_claims_of_models(best), *_claims_of_collections(best)]),
    }


@dataclass(frozen=True)
class Roles:
    """Heads with each role, and the margins of the relations, in every bootstrap replicate.

    Replicate 0 is all sentences; two models measured on one text share their resamples.
    """

    measurement: Measurement
    held: dict[Role, Bool[Tensor, "replicate layer head"]]
    margins: Float[Tensor, "replicate column"]

    @classmethod
    def of(cls, measurement: Measurement) -> "Roles":
        names = ("positional/encoder", "syntactic", "offsets", "rare")
        held = held_roles(*(measurement.sums[name].replicates() for name in names))
        return cls(measurement, held, best_margins(measurement))

    @property
    def labels(self) -> dict[str, object]:
        labels = self.measurement.labels
        return {
            **labels,
            "collection": collection(str(labels["corpus"])),
            "language": self.language,
        }

    @property
    def language(self) -> str:
        labels = self.measurement.labels
        invented = labels["target"] == UNDETERMINED
        return str(labels["corpus"]).rpartition("-")[2] if invented else str(labels["target"])

    @property
    def share(self) -> Float[Tensor, " replicate"]:
        """Share of the encoder heads with a role."""
        any_role = torch.stack(list(self.held.values())).any(0)
        return any_role.double().mean((1, 2))

    @property
    def functions(self) -> Float[Tensor, " replicate"]:
        """Number of the three roles that some head holds."""
        return torch.stack([each.any(-1).any(-1) for each in self.held.values()]).double().sum(0)

    @property
    def relations(self) -> Float[Tensor, " replicate"]:
        """Number of relation-directions that the best head tracks above the baseline."""
        return (self.margins >= THRESHOLDS.syntactic_margin).double().sum(-1)


def _counts(roles: Roles) -> Iterator[dict[str, object]]:
    """Number of heads with each role and with any, with the interval over sentences."""
    layers, heads = roles.held[Role.RARE].shape[1:]
    counted = {str(role): held.double().sum((1, 2)) for role, held in roles.held.items()}
    for role, count in (counted | {ANY: roles.share * layers * heads}).items():
        value, low, high = interval(count)
        yield {**roles.labels, "role": role, "heads_with_role": round(value), "low": low,
               "high": high, "layers": layers, "heads": heads}  # fmt: skip


def _claims_of_models(models: Sequence[Roles]) -> Iterator[dict[str, object]]:
    for each in models:
        labels = each.measurement.labels
        yield claim_row("voita-f2-roles-in-every-language", labels, *interval(each.functions))
        yield claim_row("voita-f4-syntax-in-every-language", labels, *interval(each.relations))


def _claims_of_collections(models: Sequence[Roles]) -> Iterator[dict[str, object]]:
    """The largest difference between two languages of one collection, seeds averaged first."""

    def named(each: Roles) -> str:
        return str(each.labels["collection"])

    for name, members in groupby(sorted(models, key=named), named):
        shares: dict[str, list[Tensor]] = {}
        corpora: dict[str, None] = {}
        for each in members:
            shares.setdefault(each.language, []).append(each.share)
            corpora[str(each.labels["corpus"])] = None
        if len(shares) > 1:
            averaged = torch.stack([torch.stack(seeds).mean(0) for seeds in shares.values()])
            labels = {"model": name, "corpus": next(iter(corpora)), "target": "+".join(shares),
                      "seed": ""}  # fmt: skip
            spread = averaged.amax(0) - averaged.amin(0)
            if not averaged[:, 0].any():
                # Languages that share having no specialised head say nothing of the claim.
                spread = torch.full_like(spread, torch.nan)
            yield claim_row("voita-f2-same-share-of-roles", labels, *interval(spread))
