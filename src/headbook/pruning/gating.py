"""Learning which heads to keep: gates on attention blocks, and the penalty on open ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from headbook.models.capture import Capturable, Point
from headbook.pruning.hard_concrete import Constants, HardConcrete
from headbook.types import HeadId, Kind, UserError


def gate_heads(
    model: Capturable,
    kinds: Iterable[Kind],
    constants: Constants,
    seed: int,
    start: float | None = None,
) -> None:
    """Puts a Hard Concrete gate on every head of these kinds of attention.

    log α starts at `start`, or where it is None Glorot-uniform on [1, heads, 1, 1] as TensorFlow
    reads that shape, ±√(6/2h): the paper's code. UserError for a kind the model lacks.
    """
    kinds = tuple(kinds)
    missing = set(kinds) - {kind for kind, _, _ in model.attentions()}
    if missing or not kinds:
        raise UserError(f"no attention to gate: the model has no {', '.join(missing) or 'kind'}")
    noise, some = torch.Generator().manual_seed(seed), next(model.parameters())
    for kind, _, block in model.attentions():
        if kind in kinds:
            limit = (6 / (2 * block.heads)) ** 0.5
            drawn = torch.rand(block.heads, generator=noise) * 2 * limit - limit
            if start is not None:
                drawn = torch.full_like(drawn, start)
            gate = HardConcrete(drawn.to(some), constants)
            block.gate = gate.train(block.training)


def gates(model: Capturable) -> Iterator[tuple[Kind, int, HardConcrete]]:
    for kind, layer, block in model.attentions():
        if isinstance(block.gate, HardConcrete):
            yield kind, layer, block.gate


def decided_closed(model: Capturable) -> tuple[HeadId, ...]:
    """The heads whose gates are 0 at test time."""
    return tuple(
        HeadId(kind, layer, head)
        for kind, layer, gate in gates(model)
        for head, value in enumerate(gate.decided().tolist())
        if value == 0
    )


def parameter_groups(model: Capturable, gate_factor: float) -> list[dict[str, Any]]:
    """Parameter groups: weights, and gates at `gate_factor` times their learning rate."""
    of_gates = [gate.log_alpha for _, _, gate in gates(model)]
    known = set(map(id, of_gates))
    weights = [each for each in model.parameters() if each.requires_grad and id(each) not in known]
    return [{"params": weights}, {"params": of_gates, "factor": gate_factor}]


@dataclass(frozen=True)
class HeadPenalty:
    """λ Σ_h P(g_h ≠ 0) over every gate of every gated block, in nats per target token.

    λ is that of one head. The paper's code takes the mean over gated blocks of sums over heads, so
    its coefficient is λ times the number of blocks.
    """

    strength: float
    points: ClassVar[frozenset[Point]] = frozenset()

    def __call__(self, model: nn.Module, *_: object) -> Tensor:
        return self.strength * sum(gate.open_probability().sum() for _, _, gate in gates(model))

    @torch.no_grad()
    def row(self, model: nn.Module) -> dict[str, float]:
        """State of the gates: heads expected open, decided open, and the share saturated."""
        learned: Sequence[HardConcrete] = [gate for _, _, gate in gates(model)]
        expected = sum(float(gate.open_probability().sum()) for gate in learned)
        saturated = torch.cat([gate.saturated() for gate in learned])
        kept = sum(float(gate.decided().sum()) for gate in learned)
        return {
            "expected_heads": expected,
            "kept_heads": kept,
            "saturated_share": float(saturated.mean()),
        }
