"""Page 01, models trained here: how far from symmetric the scores of every encoder head are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.heads import BATCH_TOKENS, encoded
from headbook.corpora.batches import in_order
from headbook.heads.collect import collect
from headbook.heads.measure import RatioSums, percentiles
from headbook.heads.symmetry import TokenAsymmetry, projection_asymmetry
from headbook.looking.weights import encoder_weights, tied
from headbook.models.transformer import Transformer
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import Measurement, claim_row, measurements, stacked
from headbook.studies.results import Tables

STUDY = "01_anatomy"


class Version(StrEnum):
    """Which weights a row is of."""

    UNTRAINED = "untrained"
    TRAINED = "trained"
    TIED = "tied"  # the trained model with every encoder key projection its query projection


@dataclass(frozen=True)
class Subject:
    """A model in one version, and its scores' asymmetry [layer, head] on held-out sentences."""

    version: Version
    measurement: Measurement
    model: Transformer
    asymmetry: RatioSums

    @property
    def labels(self) -> dict[str, object]:
        return {**self.measurement.labels, "version": str(self.version)}


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every head's asymmetry in every version, and the claims."""
    subjects = list(_subjects(config, store or Store.default()))
    return {
        "asymmetry": stacked(_per_head(each) for each in subjects),
        "claims": pd.DataFrame([row for each in subjects for row in _claims(each)]),
    }


def _subjects(config: Config, store: Store) -> Iterator[Subject]:
    for each in measurements(config, store, updates=(None, 0)):
        if each.run.update == 0:
            yield Subject(Version.UNTRAINED, each, each.trained.untrained(), each.sums["asymmetry"])
        else:
            trained = each.trained.model()
            yield Subject(Version.TRAINED, each, trained, each.sums["asymmetry"])
            yield Subject(Version.TIED, each, tied(trained), _measured(tied(trained), each))


def _measured(model: Transformer, measurement: Measurement) -> RatioSums:
    """The scores' asymmetry of a model that no store keeps, on the measurement's sentences."""
    measure = TokenAsymmetry()
    batches = list(in_order(encoded(measurement.trained, measurement.text), BATCH_TOKENS))
    collect(model, batches, [measure])
    return measure.sums()


def _per_head(subject: Subject) -> pd.DataFrame:
    """Asymmetry of every head's scores, with its interval, and of its projections."""
    low, high = subject.asymmetry.interval()
    numbers = {"scores": subject.asymmetry.ratio(), "low": low, "high": high,
               "projections": projection_asymmetry(*encoder_weights(subject.model))}  # fmt: skip
    return cells(("layer", "head"), numbers).assign(**subject.labels)


def cells(axes: Sequence[str], numbers: Mapping[str, Tensor]) -> pd.DataFrame:
    """One row per cell of tensors of one shape, its place counted from one."""
    shape = next(iter(numbers.values())).shape
    places = 1 + torch.cartesian_prod(*map(torch.arange, shape)).T
    values = {name: each.flatten().tolist() for name, each in numbers.items()}
    return pd.DataFrame({**dict(zip(axes, places.tolist(), strict=True)), **values})


def _claims(subject: Subject) -> Iterator[dict[str, object]]:
    """The head at the edge: an interval of the extreme itself, chosen anew in every replicate."""
    heads = subject.asymmetry.replicates().flatten(1)
    asked = {
        Version.TRAINED: ("why-scores-not-symmetric", heads.amin(1)),
        Version.TIED: ("why-tied-scores-symmetric", heads.amax(1)),
    }
    if subject.version in asked:
        claim, edge = asked[subject.version]
        ends = map(float, percentiles(edge[1:]))
        yield claim_row(claim, subject.labels, float(edge[0]), *ends)
