"""Capabilities of the machine."""


def multiplies_bfloat16() -> bool:
    """Whether the accelerator, or else the processor, has instructions for bfloat16 products."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()
