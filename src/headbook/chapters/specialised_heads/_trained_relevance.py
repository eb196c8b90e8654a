"""Page 16, models trained here: relevance of heads beside confidence and roles."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.relevance import RelevanceRun, relevance
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measure, text_of
from headbook.chapters.specialised_heads._head_tables import role_rows
from headbook.chapters.specialised_heads._kept_roles import NEARNESS, encoder_scores
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.heads.measure import RatioSums, percentiles
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import interval, resampled_within_layers, within_layers
from headbook.types import Kind

BEST, UNTRAINED = "best", "untrained"
MAIN = Variant.CODE_2019
"""The variant of the claims: very probably what made the paper's figures."""
Replicates = Float[np.ndarray, "replicate layer head"]


@dataclass(frozen=True)
class Subject:
    """One model: its relevance by the three variants and before training, and what heads do."""

    trained: TrainedModel
    found: Mapping[Variant, Mapping[str, RatioSums]]
    untrained: Mapping[str, RatioSums]
    measured: Measurement

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.trained)

    @property
    def every(self) -> list[tuple[str, Variant, Mapping[str, RatioSums]]]:
        """(update, variant, sums); of the untrained model the claims' variant only."""
        best = [(BEST, variant, sums) for variant, sums in self.found.items()]
        return [*best, (UNTRAINED, MAIN, self.untrained)]


def trained_here(config: Config, store: Store) -> Tables:
    """Relevance of the heads of each layer, and what it has to do with roles."""
    subjects = [_subject(trained(run, store), config, store) for run in config.examined_models()]
    return {
        "layers": stacked(table for each in subjects for table in _layers(each)),
        "claims": pd.DataFrame([row for each in subjects for row in _claims(each)]),
    }


def _subject(model: TrainedModel, config: Config, store: Store) -> Subject:
    sentences = config.preset.pruning.examined
    found = {
        variant: relevance(model, RelevanceRun(variant, sentences), store) for variant in Variant
    }
    untrained = relevance(model, RelevanceRun(MAIN, sentences, 0), store)
    text = text_of(model, HELD_OUT, config, store)
    return Subject(model, found, untrained, measure(model, text, store))


def _layers(each: Subject) -> Iterator[pd.DataFrame]:
    """One row per block: the share of the prediction that its heads hold together."""
    for update, variant, sums in each.every:
        for kind in Kind:
            total = sums[f"raw/{kind}"].replicates().sum(-1)
            part = sums[f"normalised/{kind}"].replicates()
            largest = part.amax(-1) * part.shape[-1]
            numbers = {}
            for name, values in (("share", total), ("largest", largest)):
                low, high = percentiles(values[1:])
                ends = {name: values[0], f"{name}_low": low, f"{name}_high": high}
                numbers |= {key: found.tolist() for key, found in ends.items()}
            layer = range(1, total.shape[1] + 1)
            yield pd.DataFrame(numbers).assign(
                layer=layer, kind=str(kind), variant=str(variant), update=update, **each.labels
            )


def _parts(sums: Mapping[str, RatioSums]) -> Replicates:
    """Every encoder head's part of its layer, as it is and in every replicate."""
    return sums[f"normalised/{Kind.ENCODER}"].replicates().numpy()


def _largest(sums: Mapping[str, RatioSums]) -> np.ndarray:
    """The largest part over an even one, mean over the layers; taken anew in every replicate."""
    part = _parts(sums)
    return (part.max(-1) * part.shape[-1]).mean(-1)


def _claims(each: Subject) -> Iterator[dict[str, object]]:
    labels, part = each.labels, _parts(each.found[MAIN])
    dominant = interval(_largest(each.found[MAIN]))
    yield claim_row("voita-f1a-few-dominate", labels, *dominant, baseline=1.0)
    yield _follows_confidence(each, part)
    yield _rare_head(each, part[0])
    scores = encoder_scores(each.measured, each.trained.run.size)
    yield claim_row("voita-f1a-top-heads-have-roles", labels, _top_with_role(each, part[0]))
    nearness = scores[NEARNESS].to_numpy().reshape(part[0].shape)
    yield claim_row(
        "voita-f1a-follows-roles", labels, *interval(resampled_within_layers(nearness, part[0]))
    )


def _follows_confidence(each: Subject, part: Replicates) -> dict[str, object]:
    """Above the first layer; both are measured on sentences of their own, drawn again alike."""
    claim = "voita-f1a-follows-confidence"
    if part.shape[1] < 2:
        return claim_row(claim, each.labels, float("nan"))
    confidence = each.measured.sums["confidence/encoder"].replicates().numpy()
    agreement = within_layers(part[:, 1:], confidence.reshape(part.shape)[:, 1:]).mean(-1)
    return claim_row(claim, each.labels, *interval(agreement))


def _rare_head(each: Subject, part: Float[np.ndarray, "layer head"]) -> dict[str, object]:
    """Share of queries at which the first layer's most relevant head points at a rare token."""
    sums, head = each.measured.sums, int(part[0].argmax())
    shares = sums["rare"].replicates()[:, 0, head, 1].numpy()
    chance = float(sums["rare chance"].ratio()[0, 0, 1])
    return claim_row("voita-f1a-rare-most-relevant", each.labels, *interval(shares), chance)


def _top_with_role(each: Subject, part: Float[np.ndarray, "layer head"]) -> float:
    """Share of the layers whose most relevant head has a role."""
    roles = role_rows(each.measured).query("held")
    held = set(zip(roles["layer"], roles["head"], strict=True))
    tops = [(layer, int(head) + 1) for layer, head in enumerate(part.argmax(-1), start=1)]
    return float(np.mean([top in held for top in tops]))
