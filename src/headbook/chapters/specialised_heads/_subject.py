"""Page 16's measurements of one model: relevance of its heads beside roles and importance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from headbook.chapters.specialised_heads._roles import Roles
from headbook.corpora.batches import Batch
from headbook.heads.measure import RatioSums
from headbook.heads.relevance_pass import Pass, forward_pass
from headbook.heads.relevance_rules import Variant, rules_of
from headbook.heads.relevance_sums import RelevanceSums, collect_relevance
from headbook.looking.importance import by_gradient
from headbook.looking.measure import chosen
from headbook.looking.ours import OurModel
from headbook.models.gates import all_heads
from headbook.models.loaded import Loaded
from headbook.released.firefox import FirefoxModel
from headbook.released.student_relevance import student_pass
from headbook.statistics import interval, resampled_within_layers, within_layers
from headbook.types import Kind

MAIN = Variant.CODE_2019
"""The rules of the figure: those of the paper's code, which alone conserve relevance here."""
BATCH_TOKENS = 256
Parts = Float[np.ndarray, "replicate layer head"]


@dataclass(frozen=True)
class Subject:
    """A model that translates some sentences of a text, and the roles of its heads on all.

    `pass_of` says which models relevance is propagated through.
    """

    roles: Roles
    sentences: int

    @property
    def model(self) -> Loaded:
        return self.roles.reading.model

    @property
    def labels(self) -> dict[str, object]:
        return {"model": self.model.name, "text": self.roles.reading.text,
                "sentences": self.sentences}  # fmt: skip

    @cached_property
    def batches(self) -> Sequence[Batch]:
        """Sentences drawn by a hash, with the model's own greedy translations as targets."""
        trees = self.roles.reading.parsed
        texts = [trees[row].text for row in chosen(len(trees), self.sentences)]
        return self.model.batches(texts, self.model.translate(texts), BATCH_TOKENS)

    @cached_property
    def main(self) -> Mapping[str, RatioSums]:
        """Relevance by the rules of the figure."""
        return propagated(self.model, self.batches, MAIN)

    @cached_property
    def parts(self) -> Parts:
        """Relevance of every encoder head as a part of its layer."""
        return parts_of(self.main)

    @cached_property
    def gradient(self) -> Float[np.ndarray, "layer head"]:
        """Importance by gradient (Michel et al. 2019, equation 2), nats per sentence."""
        kinds = [head.kind for head in all_heads(self.model.network)]
        values = by_gradient(self.model, self.batches)
        encoder = torch.tensor([kind is Kind.ENCODER for kind in kinds])
        return values[encoder].reshape(self.parts.shape[1:]).numpy()

    @cached_property
    def correlations(self) -> dict[str, tuple[float, float, float]]:
        """Spearman's with relevance within layers, mean over layers; with 95 % intervals."""
        confidence = self.roles.sums["confidence"].replicates().numpy()
        above = within_layers(self.parts[:, 1:], confidence[:, 1:]).mean(-1)
        nearness = self.roles.nearness[0].numpy()
        return {
            "confidence, above layer 1": interval(above),
            "nearness to a role": interval(resampled_within_layers(nearness, self.parts[0])),
            "importance by gradient": interval(
                resampled_within_layers(self.gradient, self.parts[0])
            ),
        }


def pass_of(model: Loaded) -> Callable[[nn.Module, Batch], Pass] | None:
    """The forward pass that relevance goes back through: of students and of translation models
    trained here; None for other models."""
    if isinstance(model, FirefoxModel):
        return student_pass
    return forward_pass if isinstance(model, OurModel) else None


def propagated(
    model: Loaded, batches: Sequence[Batch], variant: Variant
) -> Mapping[str, RatioSums]:
    """Relevance of all heads over all predictions, see `RelevanceSums`."""
    forward = pass_of(model)
    assert forward is not None
    sums = RelevanceSums()
    collect_relevance(model.network, batches, rules_of(variant), sums, forward=forward)
    return sums.sums()


def parts_of(sums: Mapping[str, RatioSums]) -> Parts:
    """Relevance of every encoder head as a part of its layer's, in every replicate."""
    return sums[f"normalised/{Kind.ENCODER}"].replicates().numpy()
