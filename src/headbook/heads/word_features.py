"""A summary of what attention says of each word, without saying which word it is."""

import torch
from jaxtyping import Float
from torch import Tensor


def word_features(
    weights: Float[Tensor, "head word word"], special: Float[Tensor, "head word"]
) -> Float[Tensor, "word feature"]:
    """Seven numbers per head and word: the word's weight on itself, on the word before and after
    (0 at an end), on special tokens, its largest weight on another word, the entropy of its weights
    in nats, and the sum of the weights on it from other words."""
    own = weights.diagonal(dim1=-2, dim2=-1)
    others = weights - torch.diag_embed(own)
    edge = weights.new_zeros(len(weights), 1)
    before = torch.cat([edge, weights.diagonal(-1, -2, -1)], dim=1)
    after = torch.cat([weights.diagonal(1, -2, -1), edge], dim=1)
    entropy = torch.special.entr(weights).sum(-1) + torch.special.entr(special)
    found = [own, before, after, special, others.amax(-1), entropy, others.sum(-2)]
    return torch.cat(found).T
