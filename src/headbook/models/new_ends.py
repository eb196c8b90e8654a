"""A transformer with a new input and a new output layer, of which only some weights are trained.

Lu et al. 2021, section 2.1: everything between the ends may stay frozen.
"""

from enum import StrEnum

from jaxtyping import Bool, Float
from torch import Tensor, nn

from headbook.models.bodies import Body
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
    """A body that reads vectors instead of words and gives classes.

    Answers are read at the last `positions`, `each` of them from every position, or from the mean
    of all where `positions` is None.
    """

    def __init__(
        self, body: Body, features: int, classes: int, positions: int | None, each: int = 1
    ) -> None:
        super().__init__()
        width = body.positions.shape[1]
        self.body, self.positions, self.classes = body, positions, classes
        self.input, self.output = nn.Linear(features, width), nn.Linear(width, each * classes)
        nn.init.orthogonal_(self.input.weight, gain=GAIN)

    def read(
        self, inputs: Float[Tensor, "row time feature"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row position width"]:
        """States after the body that answers are read from, in float32."""
        longest = len(self.body.positions)
        if inputs.shape[1] > longest:
            raise UserError(
                f"a sequence of {inputs.shape[1]} is longer than the body's {longest} positions"
            )
        states = self.body(self.input(inputs), real).float()
        if self.positions is not None:
            return states[:, -self.positions :]
        return pooled(states, real)[:, None]

    def answer(
        self, states: Float[Tensor, "row position width"]
    ) -> Float[Tensor, "row answer class"]:
        """Logits of all answers, those of one position beside each other."""
        return self.output(states).reshape(len(states), -1, self.classes)

    def forward(
        self, inputs: Float[Tensor, "row time feature"], real: Bool[Tensor, "row time"]
    ) -> Float[Tensor, "row answer class"]:
        return self.answer(self.read(inputs, real))

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
            Trainable.POSITIONS: [name for name, each in self.named_parameters()
                                  if each is self.body.positions],
        }  # fmt: skip
        kinds = list(groups)
        return [name for kind in kinds[: kinds.index(trainable) + 1] for name in groups[kind]]
