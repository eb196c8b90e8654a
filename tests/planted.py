"""A model whose heads matter by a known amount, for pages that prune it step by step."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.artefacts.importance import ImportanceRun
from headbook.artefacts.masked import Masked, MaskedRun
from headbook.artefacts.model import ModelRun, TrainedModel, corpus_of
from headbook.chapters import config as configs
from headbook.chapters.profile import PROFILES
from headbook.chapters.sixteen import _curves as pruning_curves
from headbook.heads.measure import RatioSums
from headbook.models.transformer import Transformer, TransformerConfig
from headbook.runs.store import Store
from headbook.training.paired import corpus_bleu
from headbook.types import HeadId, Kind

LAYERS, HEADS, SENTENCES = 2, 4, 40
LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
EARLY, LATE, LAST = 4, 64, 100
"""Updates: nothing is translated at the first, all heads matter alike at the second."""
DAMAGE = {Kind.ENCODER: 0.2, Kind.DECODER: 0.1, Kind.CROSS: 0.5}
"""What goes with one block's most important head; the others of the block cost much less."""
PATTERN = (1.0, 0.05, 0.0, 0.25)


class PlantedModel(TrainedModel):
    """A shape and a training curve; what it translates is planted."""

    def untrained(self) -> Transformer:
        return Transformer(TransformerConfig(9, 9, LAYERS, LAYERS, 8, 8, HEADS))

    @property
    def snapshots(self) -> dict[int, Path]:
        return dict.fromkeys((EARLY, LATE, LAST), self.folder)

    @property
    def curve(self) -> pd.DataFrame:
        return pd.DataFrame({"update": [50, LAST], "valid_loss_nats": [5.0, 4.0]})


def damage(head: HeadId, update: int | None) -> float:
    """The share of the quality that goes with one head."""
    if update == LATE:
        return 0.05
    return DAMAGE[head.kind] * PATTERN[head.head]


def quality(mask: tuple[HeadId, ...], update: int | None) -> float:
    """Of the translations without these heads; 0 before anything was learned."""
    return 0.0 if update == EARLY else max(0.0, 1 - sum(damage(head, update) for head in mask))


@dataclass
class Planted:
    """The model, and what a study asked of it."""

    model: PlantedModel
    masked_runs: list[MaskedRun] = field(default_factory=list)
    importance_runs: list[ImportanceRun] = field(default_factory=list)

    def masked(self, trained: TrainedModel, run: MaskedRun, store: Store) -> Masked:
        self.masked_runs.append(run)
        statistics = np.stack([_statistics(quality(mask, run.update)) for mask in run.masks])
        bleu = np.array([corpus_bleu(each) for each in statistics])
        return Masked(run, bleu, statistics, np.zeros(len(run.masks)))

    def importance(
        self, trained: TrainedModel, run: ImportanceRun, store: Store
    ) -> dict[str, RatioSums]:
        self.importance_runs.append(run)
        return {
            f"{form}/{kind}": _sums(kind, run) for kind in Kind for form in ("position", "sentence")
        }


def _statistics(good: float) -> np.ndarray:
    """Every sentence's statistics for so large a share of right n-grams, a little more or less."""
    lengths = 100 + np.arange(SENTENCES) % 7
    wobble = np.linspace(0.7, 0.9, SENTENCES)
    totals = lengths[:, None] - np.arange(4)
    correct = np.round(totals * (good * wobble)[:, None]).astype(np.int64)
    return np.column_stack([lengths, lengths, correct, totals])


def _sums(kind: Kind, run: ImportanceRun) -> RatioSums:
    found = [
        [
            0.0 if HeadId(kind, layer, head) in run.closed
            else damage(HeadId(kind, layer, head), run.update)
            for head in range(HEADS)
        ]
        for layer in range(LAYERS)
    ]  # fmt: skip
    numerator = torch.tensor(found, dtype=torch.float64).expand(2, 3, LAYERS, HEADS)
    return RatioSums(numerator, torch.ones(2, 3, 1, 1, dtype=torch.float64))


@pytest.fixture(scope="module")
def planted() -> Iterator[Planted]:
    """The stages give what is planted, and the smoke profile has more levels."""
    profile = PROFILES["smoke"]
    run: ModelRun = profile.models[0]
    model = PlantedModel(run, Path("nowhere"), corpus_of(run.corpus, run.pairs))
    pruning = replace(profile.pruning, levels=LEVELS, orders=3)
    found = Planted(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(configs, "PROFILES", {"smoke": replace(profile, pruning=pruning)})
        patch.setattr(pruning_curves, "masked", found.masked)
        yield found
