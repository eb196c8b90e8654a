"""Attention whose heads bind what they fetch to a role: the TP-Transformer of Schlag et al. 2019.

The tensor product of a filler and a role is thinned out to its diagonal, the Hadamard product.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention, Reprojected
from headbook.models.transformer import glorot


class ConstantRole(nn.Module):
    """A learnt role per head, one after another, that does not look at the query: W_O could do the
    same."""

    def __init__(self, inner: int) -> None:
        super().__init__()
        self.role = nn.Parameter(torch.ones(inner))

    def forward(self, queries: Tensor) -> Float[Tensor, " inner"]:
        """The same for every query."""
        return self.role


class QueryRole(nn.Linear):
    """r_i = W_r x_i + b_r, which starts near one: W_r as every linear layer, b_r at one."""

    def __init__(self, inner: int) -> None:
        super().__init__(inner, inner)
        glorot(self)
        nn.init.ones_(self.bias)


class Bound(Reprojected):
    """output_i = W_O (context_i ⊙ r_i) + b with r_i = W_r x_i + b_r (Schlag et al. 2019).

    x_i is the state that the query is computed from, and the roles of all heads stand one after
    another, as wide as the heads together.
    """

    def __init__(self, attention: Attention, role: nn.Module) -> None:
        super().__init__(attention)
        self.role = role

    def _bound(self, context: Tensor, queries: Tensor) -> Tensor:
        role = self.role(queries).unflatten(-1, (self.heads, -1))
        return context * (role.transpose(1, 2) if role.dim() > 2 else role[:, None])
