"""Training settings: all that decides a training beside the model and the text."""

import math
from dataclasses import dataclass
from enum import StrEnum

from headbook.machine import multiplies_bfloat16
from headbook.types import UserError


class Precision(StrEnum):
    """Fabric's names for the arithmetic of a step; weights and moments stay in 32 bits."""

    FULL = "32-true"
    BF16 = "bf16-mixed"

    def here(self) -> "Precision":
        """This precision, or float32 where bfloat16 products are only emulated.

        Emulated, a product takes some seventy times as long as in float32. A recipe asks for the
        shorter arithmetic and keeps its key; `record.hardware` says which one a machine had.
        """
        return self if self is Precision.FULL or multiplies_bfloat16() else Precision.FULL


@dataclass(frozen=True)
class TrainingConfig:
    """Training settings; optimiser constants are the paper's (appendix B)."""

    updates: int
    tokens: int = 4096  # padded tokens a batch at most, on the longer side, over all processes
    scale: float = 1.1  # of the learning rate, see `learning_rate`; the paper's is 4
    warmup: int = 600
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    precision: Precision = Precision.BF16
    validate_every: int = 200
    first_snapshot: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.updates < 1 or self.tokens < 1:
            raise UserError(
                f"updates is {self.updates} and tokens is {self.tokens}; give at least 1 of each"
            )

    def is_snapshot(self, update: int) -> bool:
        """Whether the model is kept at this update: first_snapshot times powers of √2."""
        if update < self.first_snapshot:
            return False
        steps = round(2 * math.log2(update / self.first_snapshot))
        return update == round(self.first_snapshot * 2 ** (steps / 2))


def learning_rate(update: int, width: int, scale: float, warmup: int) -> float:
    """scale · width^-½ · min(update^-½, update · warmup^-1.5), updates counted from one.

    The form of the paper's repository; the paper's text leaves out width^-½, with which its scale
    of 4 and warm-up of 16,000 would peak at 0.03.
    """
    return scale * width**-0.5 * min(update**-0.5, update * warmup**-1.5)
