"""Collaborative attention: heads that share their query and key dimensions.

Cordonnier et al. (2020): the scores of head h are X W̃_Q diag(m_h) W̃_Kᵀ Yᵀ. The shared
projections have D̃_k columns, and the vector m_h says how much head h uses each. Ordinary heads are
the case in which every column belongs to one head.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.attention import Attention, AttentionPath, split
from headbook.types import UserError


@dataclass(frozen=True)
class Factors:
    """The query-key products of one layer's heads as a sum of shared terms.

    The score of head h between states x and y is Σ_r mixing_hr (x·queries_r)(y·keys_r) +
    y·content_h, over √width, where `width` is that of an ordinary head. `content` comes from the
    query's bias; the key's adds the same to all keys of a query, so the softmax removes it.
    """

    queries: Float[Tensor, "model dim"]
    keys: Float[Tensor, "model dim"]
    mixing: Float[Tensor, "head dim"]
    content: Float[Tensor, "head model"]
    width: int

    def scores(
        self, states: Float[Tensor, "batch query model"], memory: Float[Tensor, "batch key model"]
    ) -> Float[Tensor, "batch head query key"]:
        """Scores before the mask and the softmax."""
        mixed = (states @ self.queries)[:, None] * self.mixing[:, None]
        keys = memory @ self.keys
        liked = (memory @ self.content.mT).mT[:, :, None]
        return (mixed @ keys.mT[:, None] + liked) * self.width**-0.5

    @property
    def parameters(self) -> int:
        """Numbers in it, the content biases left out: (2 D_in + N_h) D̃_k."""
        return self.queries.numel() + self.keys.numel() + self.mixing.numel()


def concatenated(query: nn.Linear, key: nn.Linear, heads: int) -> Factors:
    """Ordinary heads as factors, exactly: mixing vectors are one-hot in blocks."""
    width = query.weight.shape[0] // heads
    mixing = torch.eye(heads).repeat_interleave(width, 1).to(query.weight)
    return Factors(query.weight.detach().mT, key.weight.detach().mT, mixing,
                   content_bias(query, key, heads), width)  # fmt: skip


def content_bias(query: nn.Linear, key: nn.Linear, heads: int) -> Float[Tensor, "head model"]:
    """v_h = W_K^h b_Q^h: how much head h looks at a key whatever the query is."""
    by_head = key.weight.detach().unflatten(0, (heads, -1))
    if query.bias is None:
        return torch.zeros_like(by_head[:, 0])
    return torch.einsum("hdm,hd->hm", by_head, query.bias.detach().unflatten(0, (heads, -1)))


class Collaborative(Attention):
    """Attention whose heads share `dims` query and key dimensions; values and output are ordinary.

    Mixing vectors start as normal entries, which gives scores the spread that ordinary heads start
    with. UserError for no dimension or more than the model's width.
    """

    def __init__(
        self, width: int, heads: int, dims: int, dropout: float = 0.0,
        path: AttentionPath = AttentionPath.AUTO,
    ) -> None:  # fmt: skip
        require_dimensions(dims, width)
        super().__init__(width, heads, dropout, path)
        self.query, self.key = (nn.Linear(width, dims, bias=False) for _ in range(2))
        self.mixing = nn.Parameter(torch.randn(heads, dims))
        self.content: Tensor | None = None

    @classmethod
    def of(cls, attention: Attention, factors: Factors) -> "Collaborative":
        """Ordinary attention with its queries and keys replaced; values and output are its own."""
        model, dims = factors.queries.shape
        new = cls(model, attention.heads, dims, attention.dropout.rate, attention.path)
        new.value, new.output = attention.value, attention.output
        # the scores are divided by the root of all columns, the content bias being one more
        scale = ((dims + 1) / factors.width) ** 0.5
        new.query.weight = nn.Parameter(factors.queries.mT)
        new.key.weight = nn.Parameter(factors.keys.mT)
        new.mixing = nn.Parameter(factors.mixing * scale)
        new.content = nn.Parameter(factors.content * scale)
        return new.train(attention.training)

    def _queries(self, states: Tensor) -> Tensor:
        mixed = self.query(states)[:, None] * self.mixing[:, None]
        if self.content is None:
            return mixed
        return torch.cat([mixed, torch.ones_like(mixed[..., :1])], -1)

    def _project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        value = split(self.value(memory), self.heads)
        key = self.key(memory)[:, None]
        if self.content is None:
            return key, value
        liked = (memory @ self.content.mT).mT[..., None]
        return torch.cat([key.expand(-1, self.heads, -1, -1), liked], -1), value

    def _spread(self, shared: Tensor) -> Tensor:
        return shared.expand(-1, self.heads, -1, -1)


class Narrow(Attention):
    """Ordinary heads of `dims` query and key dimensions in all; values keep their width.

    UserError as of `Collaborative`, and where the dimensions cannot be divided among the heads.
    """

    def __init__(
        self, width: int, heads: int, dims: int, dropout: float = 0.0,
        path: AttentionPath = AttentionPath.AUTO,
    ) -> None:  # fmt: skip
        require_dimensions(dims, width)
        if dims % heads:
            raise UserError(f"{heads} heads cannot share out {dims} dimensions: give a multiple")
        super().__init__(width, heads, dropout, path)
        self.query, self.key = (nn.Linear(width, dims, bias=False) for _ in range(2))


def require_dimensions(dims: int, width: int) -> None:
    """UserError unless so many shared dimensions can be projected from states of this width."""
    if not 1 <= dims <= width:
        raise UserError(f"{dims} query-key dimensions of states {width} wide: give 1 to {width}")
