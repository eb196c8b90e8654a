"""The X-raying article's decoder as its notebook ran it, faults included. No other page trains it.

Its mask is the wrong way round: a position sees those *after* it and nothing else, and what the
last one attends to is spread evenly over everything. So a position can see the token it has to
predict. Scores are divided by the square root of the model's width, not of a head's.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from headbook.models.attention import Attention, Mask
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig, sinusoids

BLOCKED = -1e20
"""Value of a blocked score: finite, so a query that may look nowhere looks everywhere alike."""


class PublishedAttention(Attention):
    """Attention whose queries, keys and values have no bias and whose scores are smaller."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config.width, config.heads, config.dropout, config.path)
        for name in ("query", "key", "value"):
            setattr(self, name, nn.Linear(config.width, config.width, bias=False))

    def _fused(self, query: Tensor) -> bool:
        return False

    def _scores(self, query: Tensor, key: Tensor, mask: Mask | None) -> Tensor:
        width = self.heads * query.shape[-1]
        scores = (query * width**-0.5) @ key.transpose(-2, -1)
        return scores if mask is None else scores.masked_fill(~mask, BLOCKED)


class PublishedEmbedding(nn.Module):
    """Standard normal vectors times √width plus the position signal; PAD is a token like others."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)

    def forward(self, ids: Int[Tensor, "batch token"], first: int = 0) -> Tensor:
        """Vectors of `ids`, the first of which stands at position `first`."""
        width = self.tokens.embedding_dim
        places = sinusoids(first + ids.shape[1], width)[first:].to(ids.device)
        return self.tokens(ids) * width**0.5 + places


class PublishedTransformer(Transformer):
    """Decoder-only and post-norm, with torch's own starting weights.

    At width 128, six layers and 5,002 tokens it has the 2,472,842 parameters of the notebook.
    """

    def __init__(self, vocabulary: int, layers: int, width: int, feed_forward: int, heads: int,
                 dropout: float) -> None:  # fmt: skip
        config = TransformerConfig(
            vocabulary, vocabulary, 0, layers, width, feed_forward, heads, dropout,
            NormPlacement.POST,
        )  # fmt: skip
        super().__init__(config)
        self.target = PublishedEmbedding(vocabulary, width)
        for layer in self.decoder:
            layer.attention = PublishedAttention(config)
        self.logits = nn.Linear(width, vocabulary)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    def _seen(self, first: int, new: int, device: torch.device) -> Bool[Tensor, "new all"]:
        """True where a position may look: at those after it."""
        return torch.ones(new, first + new, dtype=torch.bool, device=device).triu(first + 1)
