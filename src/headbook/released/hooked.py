"""Architectures outside the attention interface of `transformers`: a hook before W_O.

Its input is the heads' contexts side by side, which the hook records and gates; weights come from
`output_attentions`. Queries, keys, values and scores are out of reach. The family is known by name:
nothing else tells W_O from other layers.
"""

from torch import Tensor, nn

from headbook.models.capture import Point
from headbook.released.tap import TappedBlock, single
from headbook.types import UserError

OUTPUT_PROJECTION = {
    "bloom": ".self_attention.dense",
    "deberta": ".attention.output.dense",
    "deberta-v2": ".attention.output.dense",
    "falcon": ".self_attention.dense",
    "gpt_neo": ".attn.attention.out_proj",
    "gptj": ".attn.out_proj",
    "mpnet": ".attention.attn.o",
}
"""The end of W_O's name, by `model_type`."""


class HookedBlock(TappedBlock):
    """A block whose contexts are read and gated on their way into W_O; `module` holds W_O."""

    editable = (Point.CONTEXT,)

    def __init__(self, name: str, heads: int, model: nn.Module) -> None:
        projection = model.get_submodule(name)
        super().__init__(name, heads, model.get_submodule(name.rpartition(".")[0]), projection)
        projection.register_forward_pre_hook(self._before)

    def _before(self, projection: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        self.calls += 1
        context = single(inputs[0]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        if (edit := self.edits.get(Point.CONTEXT)) is not None:
            context = edit(context)
        if self.record is not None:
            if projection.training:
                raise RuntimeError(f"{self.name} may drop weights in training; call eval()")
            self.record(Point.CONTEXT, context)
        return self.gated(context).transpose(1, 2).flatten(-2).to(inputs[0].dtype)


def projections(model: nn.Module) -> list[str]:
    """The name of every layer's W_O, from the input upward; UserError for other families."""
    family = model.config.model_type
    if (end := OUTPUT_PROJECTION.get(family)) is None:
        raise UserError(
            f"{family}: this architecture does not use the attention interface of transformers, "
            f"so its heads cannot be reached (known beside it: {', '.join(OUTPUT_PROJECTION)})"
        )
    return [name for name, _ in model.named_modules() if name.endswith(end)]
