"""The query and key projections of a loaded model's heads, whoever trained it."""

from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from headbook.models.loaded import Loaded
from headbook.released.network import HuggingNetwork
from headbook.types import Kind, UserError

NAMES = (("query", "key"), ("q_proj", "k_proj"), ("q_lin", "k_lin"), ("q", "k"))
"""What attention modules call the two projections."""


@dataclass(frozen=True)
class QueryKey:
    """The projections of one layer's heads, as they multiply a row of states from the right."""

    kind: Kind
    layer: int
    queries: Float[Tensor, "head model dim"]
    keys: Float[Tensor, "head model dim"]


def query_key(model: Loaded) -> Iterator[QueryKey]:
    """One per attention block, layers counted from zero; heads that share keys repeat them.

    UserError for a model whose projections are not layers of their own.
    """
    network = model.network
    for kind, layer, block in network.attentions():
        module = network.module_of(block) if isinstance(network, HuggingNetwork) else block
        query, key = _projections(module, model.name)
        of_queries = _by_head(query.weight, block.heads)
        dim = of_queries.shape[-1]
        of_keys = _by_head(key.weight, key.weight.shape[0] // dim)
        shared = block.heads // of_keys.shape[0]
        yield QueryKey(kind, layer, of_queries, of_keys.repeat_interleave(shared, dim=0))


def _projections(module: nn.Module, name: str) -> tuple[nn.Linear, nn.Linear]:
    for names in NAMES:
        found = tuple(getattr(module, each, None) for each in names)
        if all(isinstance(each, nn.Linear) for each in found):
            return found
    raise UserError(f"{name}: {type(module).__name__} has no query and key layers of its own")


def _by_head(weight: Tensor, heads: int) -> Tensor:
    """[head model dim] of a linear layer's [out in]."""
    return weight.detach().unflatten(0, (heads, -1)).transpose(1, 2)
