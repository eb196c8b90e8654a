"""The arithmetic of a training step, and what of it this machine can do."""

from enum import StrEnum

from headbook.machine import multiplies_bfloat16


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
