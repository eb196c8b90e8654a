"""A transformer with a new input and a new output layer, of which only some weights are trained.

Lu et al. 2021, section 2.1: everything between the ends may stay frozen.
"""

import math
from enum import StrEnum

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.models.loaded import pooled
from headbook.types import UserError

GAIN = 1.41
"""Of the input layer's orthogonal matrix, as the authors' code has it."""


class Trainable(StrEnum):
    """Trained parts; each of the first four includes all before it."""

    OUTPUT = "output"
    NORMS = "+ norms"
    INPUT = "+ input"
    POSITIONS = "+ positions"
    ALL = "all"


class NewEnds(nn.Module):
    """A BERT-like encoder that reads vectors instead of words and gives classes.

    `body` is an encoder of `transformers` with learnt positions, whose word embeddings and pooler
    are taken away; it is changed. Answers are read at the last positions, or one from the mean of
    all. UserError for more layers than the body has, fewer than one, or one without positions.
    """

    def __init__(
        self, body: nn.Module, features: int, classes: int, answers: int | None, layers: int
    ) -> None:
        super().__init__()
        given = len(body.encoder.layer)
        if not 1 <= layers <= given:
            raise UserError(f"{layers} layers of a body that has {given}; give 1 to {given}")
        if getattr(body.embeddings, "position_embeddings", None) is None:
            raise UserError("the body has no learnt positions to train; choose one that has")
        body.encoder.layer = body.encoder.layer[:layers]
        body.embeddings.word_embeddings = nn.Identity()
        body.pooler = None
        width = body.config.hidden_size
        self.body, self.answers = body, answers
        self.input, self.output = nn.Linear(features, width), nn.Linear(width, classes)
        nn.init.orthogonal_(self.input.weight, gain=GAIN)

    def read(
        self, inputs: Float[Tensor, "row time feature"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row answer width"]:
        """States behind the body that answers are read from, in float32."""
        longest = self.body.config.max_position_embeddings
        if inputs.shape[1] > longest:
            raise UserError(
                f"a sequence of {inputs.shape[1]} is longer than the body's {longest} positions"
            )
        states = self.body(
            inputs_embeds=self.input(inputs), attention_mask=real.long()
        ).last_hidden_state.float()
        if self.answers is not None:
            return states[:, -self.answers :]
        return pooled(states, real)[:, None]

    def forward(
        self, inputs: Float[Tensor, "row time feature"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row answer class"]:
        return self.output(self.read(inputs, real))

    def train_only(self, trainable: Trainable) -> list[str]:
        """Freezes everything else; the names of what is trained, in the order of parameters."""
        names = set(self._names(trainable))
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(name in names)
        return [name for name, parameter in self.named_parameters() if parameter.requires_grad]

    def _names(self, trainable: Trainable) -> list[str]:
        every = [name for name, _ in self.named_parameters()]
        if trainable is Trainable.ALL:
            return every
        norms = {name for name, module in self.named_modules() if isinstance(module, nn.LayerNorm)}
        groups = {
            Trainable.OUTPUT: [name for name in every if name.startswith("output.")],
            Trainable.NORMS: [name for name in every if name.rpartition(".")[0] in norms],
            Trainable.INPUT: [name for name in every if name.startswith("input.")],
            Trainable.POSITIONS: [name for name in every if "position_embeddings" in name],
        }
        kinds = list(groups)
        return [name for kind in kinds[: kinds.index(trainable) + 1] for name in groups[kind]]


def right(logits: Float[Tensor, "row answer class"], labels: Tensor) -> float:
    """Share of answers that are right; NaN where the network gives no number."""
    if not torch.isfinite(logits).all():
        return math.nan
    return float((logits.argmax(-1) == labels).double().mean())
