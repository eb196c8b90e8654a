"""The two paths of an attention block against each other. What they compute is held against
published transformers in test_transformer_against_published.py."""

import pytest
import torch
from blocks import attention, rows_of

from headbook.models.attention import AttentionPath


@pytest.mark.parametrize("masked", ["no mask", "padding", "causal and padding"])
def test_fused_path_equals_explicit_path(masked: str) -> None:
    """In evaluation: outputs, and the gradients of a loss that weighs each of them differently."""
    (states, padded), found = rows_of(33), []
    causal = torch.ones(33, 33, dtype=torch.bool).tril()[None, None]
    mask = {"no mask": None, "padding": padded}.get(masked, causal & padded)
    for path in (AttentionPath.EXPLICIT, AttentionPath.FUSED):
        block, given = attention(path, 0.5), states.clone().requires_grad_()
        output = block(given, given, mask)
        (output * torch.arange(output.numel()).sin().view_as(output)).sum().backward()
        found.append([output, given.grad, *(each.grad for each in block.parameters())])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-11)
