"""Training settings: all that decides a training beside the model and the text."""

import math
from dataclasses import dataclass

from headbook.training.precision import Precision
from headbook.types import UserError


@dataclass(frozen=True)
class TrainingConfig:
    """Training settings; optimiser constants are the paper's (appendix B)."""

    updates: int
    tokens: int = 4096  # padded tokens a batch at most, on the longer side, over all processes
    scale: float = 1.1  # of the learning rate, see schedule.py; the paper's is 4
    warmup: int = 600
    label_smoothing: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    precision: Precision = Precision.BF16
    validate_every: int = 200
    first_snapshot: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise UserError(f"updates is {self.updates}; a training needs at least 1")
        if self.tokens < 1:
            raise UserError(f"tokens is {self.tokens}; a batch needs at least 1")

    def is_snapshot(self, update: int) -> bool:
        """Whether the model is kept at this update: first_snapshot times powers of √2."""
        if update < self.first_snapshot:
            return False
        steps = round(2 * math.log2(update / self.first_snapshot))
        return update == round(self.first_snapshot * 2 ** (steps / 2))
