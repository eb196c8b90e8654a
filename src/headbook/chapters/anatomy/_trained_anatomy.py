"""Page 01, models trained here: how far from symmetric the scores of every encoder head are."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from headbook.artefacts.heads import BATCH_TOKENS, encoded
from headbook.chapters.anatomy._heads import cells
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements
from headbook.chapters.tables import claim_row, stacked
from headbook.corpora.batches import in_order
from headbook.heads.collect import collect
from headbook.heads.measure import RatioSums
from headbook.heads.symmetry import TokenAsymmetry, projection_asymmetry
from headbook.looking.weights import encoder_weights, tied
from headbook.models.transformer import Transformer
from headbook.runs.store import Store
from headbook.statistics import interval


class Version(StrEnum):
    """Weights of a row."""

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


def trained_here(config: Config, store: Store) -> Tables:
    """Every head's asymmetry in every version, and the claims."""
    subjects = list(_subjects(config, store))
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


def _claims(subject: Subject) -> Iterator[dict[str, object]]:
    """The head at the edge: an interval of the extreme itself, chosen anew in every replicate."""
    heads = subject.asymmetry.replicates().flatten(1)
    asked = {
        Version.TRAINED: ("why-scores-not-symmetric", heads.amin(1)),
        Version.TIED: ("why-tied-scores-symmetric", heads.amax(1)),
    }
    if subject.version in asked:
        claim, edge = asked[subject.version]
        yield claim_row(claim, subject.labels, *interval(edge))
