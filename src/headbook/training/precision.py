"""The arithmetic of a training step, and what of it this machine can do."""

from enum import StrEnum


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


def multiplies_bfloat16() -> bool:
    """Whether the accelerator, or else the processor, has instructions for bfloat16 products."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
