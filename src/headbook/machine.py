"""Capabilities of the machine."""


def multiplies_bfloat16() -> bool:
    """Whether the accelerator, or else the processor, has instructions for bfloat16 products."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def leave_out_cudnn_attention() -> None:
    """Leaves fused attention to kernels that need no plan.

    cuDNN makes one for every shape of a batch: where lengths vary an update took 0.30 s with it on
    an H200, and 0.06 s without.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)
