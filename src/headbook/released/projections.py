"""Architectures outside the attention interface: eager attentions and a hook on W_O.

The input of the output projection is the heads' contexts side by side, so a hook before it can
record and gate them; weights come from `output_attentions`. Queries, keys, values and scores are
out of reach. The family is known by name: W_O cannot be distinguished from other layers otherwise.
"""

from typing import ClassVar

from torch import Tensor, nn

from headbook.models.capture import Point
from headbook.released.tap import TappedBlock
from headbook.types import UserError

OUTPUT_PROJECTION = {
    "bloom": "self_attention.dense",
    "deberta": "attention.output.dense",
    "deberta-v2": "attention.output.dense",
    "falcon": "self_attention.dense",
    "gpt_neo": "attn.attention.out_proj",
    "gptj": "attn.out_proj",
    "mpnet": "attention.attn.o",
}
"""The end of the name of W_O, by `model_type`."""


def projections(model: nn.Module, family: str) -> list[tuple[str, nn.Module]]:
    """Name and module of every layer's W_O, from the input upward; UserError for others."""
    ending = OUTPUT_PROJECTION.get(family)
    if ending is None:
        known = ", ".join(sorted(OUTPUT_PROJECTION))
        raise UserError(
            f"{family}: this architecture does not use the attention interface of transformers, "
            f"so its heads cannot be reached (those known beside it: {known})"
        )
    return [(name, module) for name, module in model.named_modules() if name.endswith(f".{ending}")]


class HookedBlock(TappedBlock):
    """A block whose contexts are read and gated on their way into W_O."""

    editable: ClassVar[tuple[Point, ...]] = (Point.CONTEXT,)

    def listen(self, projection: nn.Module) -> None:
        """Puts the hook on; it stays for the life of the model."""
        self.projects_by(projection)
        projection.register_forward_pre_hook(self._before)

    def _before(self, projection: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        self.calls += 1
        beside, *rest = inputs
        context = beside.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        if (edit := self.edits.get(Point.CONTEXT)) is not None:
            context = edit(context)
        if self.record is not None:
            self.record(Point.CONTEXT, context)
        return self.gated(context).transpose(1, 2).flatten(-2), *rest

    def show(self, weights: Tensor) -> None:
        """Records the weights that the model itself gave, [batch head query key]."""
        if self.wants(Point.WEIGHTS):
            self.record(Point.WEIGHTS, weights)
