"""A trained model's heads with shared query-key dimensions (Cordonnier et al. 2020).

The stack of the heads' matrices W_Q^h W_K^hᵀ, [head model model], is decomposed by CP (PARAFAC):
its factors are the mixing vectors and the two shared projections.
"""

import importlib.util
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headbook.looking.weights import projections
from headbook.models.capture import Capturable, Point
from headbook.models.collaborative import Factors, content_bias, require_dimensions
from headbook.models.edits import edited
from headbook.runs.store import Ingredients, Stage, Store
from headbook.training import checkpoint
from headbook.types import Kind, UserError

SHARED_TERMS = Stage("shared-terms", version=1)
FILE, NAMES = "terms.safetensors", ("mixing", "queries", "keys")

Heads = Float[Tensor, "head model dim"]
"""Projections of a layer's heads as they multiply a row of states from the right."""

Stack = Float[Tensor, "head model model"]
Terms = tuple[Float[Tensor, "head term"], Float[Tensor, "model term"], Float[Tensor, "model term"]]
"""Mixing vectors and shared projections whose sum of products stands for a stack."""


def stack_of(queries: Heads, keys: Heads) -> Stack:
    """W_Q^h W_K^hᵀ of every head; biases are left out."""
    return queries @ keys.mT


def separate_terms(queries: Heads, keys: Heads, dims: int, *, evenly: bool) -> Terms:
    """The largest singular terms of each head by itself, `dims` in all, which no two heads share.

    Evenly, every head has as many (dims that do not divide leave the first heads one more);
    otherwise the largest of all heads are taken, the best there is without sharing. UserError for
    no dimension or more than the states have.
    """
    require_dimensions(dims, queries.shape[1])
    (of_queries, one), (of_keys, other) = torch.linalg.qr(queries), torch.linalg.qr(keys)
    left, scales, right = torch.linalg.svd(one @ other.mT)
    left, right = of_queries @ left, of_keys @ right.mT
    heads, rank = scales.shape
    order = torch.arange(rank).expand(heads, -1).T if evenly else -scales.T
    chosen = order.flatten().argsort(stable=True)[:dims]
    place, head = chosen // heads, chosen % heads
    root = scales[head, place].sqrt()
    mixing = torch.zeros(heads, dims).to(queries)
    mixing[head, torch.arange(dims)] = 1
    return mixing, left[head, :, place].mT * root, right[head, :, place].mT * root


@dataclass(frozen=True)
class Decomposition:
    """Settings of a decomposition beside the heads."""

    dims: int
    iterations: int


def shared_terms(queries: Heads, keys: Heads, asked: Decomposition) -> Terms:
    """The CP decomposition of the heads' stack, by alternating least squares.

    It starts from the largest separate terms, so it is never worse than these. UserError where
    tensorly is not installed, and as of `separate_terms`.
    """
    start = separate_terms(queries, keys, asked.dims, evenly=False)
    if importlib.util.find_spec("tensorly") is None:
        raise UserError(
            "tensorly is not installed: python -m pip install -c constraints.txt -e '.[why]'"
        )
    import tensorly
    from tensorly.cp_tensor import CPTensor
    from tensorly.decomposition import parafac

    with tensorly.backend_context("pytorch", local_threadsafe=True):
        # extrapolated steps save more than half of the iterations
        weights, (mixing, *shared) = parafac(
            stack_of(queries, keys), asked.dims, n_iter_max=asked.iterations,
            init=CPTensor((None, list(start))), tol=1e-6, linesearch=True,
        )  # fmt: skip
    return mixing * weights, *shared


def kept_terms(
    queries: Heads, keys: Heads, asked: Decomposition, store: Store
) -> tuple[Terms, float]:
    """`shared_terms` from the store or computed now, and the processor seconds they took."""
    require_dimensions(asked.dims, queries.shape[1])  # before the store has a folder for it
    stack = stack_of(queries, keys)
    read = {"stack": sha256(stack.numpy().tobytes()).hexdigest()}
    key = Ingredients(SHARED_TERMS, asked, read, {"device": "cpu"})

    def write(folder: Path) -> None:
        began = time.process_time()
        terms = shared_terms(queries, keys, asked)
        named = dict(zip(NAMES, terms, strict=True))
        checkpoint.write(folder / FILE, named, {"seconds": time.process_time() - began})

    tensors, note = checkpoint.read(store.get(key, write) / FILE)
    return tuple(tensors[name] for name in NAMES), note["seconds"]


def left_over(queries: Heads, keys: Heads, terms: Terms) -> float:
    """Squared distance of the terms' sum from the stack, as a share of the stack's squares."""
    stack, (mixing, of_queries, of_keys) = stack_of(queries, keys), terms
    rebuilt = (of_queries * mixing[:, None]) @ of_keys.mT
    return float((stack - rebuilt).square().sum() / stack.square().sum())


def factors(terms: Terms, query: nn.Linear, key: nn.Linear, heads: int) -> Factors:
    """Terms of the projections' stack, together with their content biases."""
    mixing, queries, keys = terms
    width = query.weight.shape[0] // heads
    return Factors(queries, keys, mixing, content_bias(query, key, heads), width)


@contextmanager
def reparametrised(network: Capturable, found: Mapping[int, Factors]) -> Iterator[None]:
    """Computes the scores of these encoder layers (from zero) from factors while the block lasts.

    Where the model's own weight of a key is zero, the key is masked. UserError for a layer that the
    model lacks, and one whose projections or weights are out of reach.
    """
    places = {
        layer: each for kind, layer, *each in projections(network) if kind is Kind.ENCODER
    }  # fmt: skip
    if missing := found.keys() - places.keys():
        raise UserError(f"the model has no encoder layer {min(missing) + 1}")
    with ExitStack() as until, torch.no_grad():
        edits = {}
        for layer, own in found.items():
            _, query, key, _ = places[layer]
            edit = _Scores(own)
            for name, linear in (("states", query), ("memory", key)):
                hook = linear.register_forward_pre_hook(edit.listen(name))
                until.callback(hook.remove)
            edits[Kind.ENCODER, layer] = {Point.WEIGHTS: edit}
        until.enter_context(edited(network, edits))
        yield


class _Scores:
    """An edit of weights by factors, from the states that the two projections read."""

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.read: dict[str, Tensor] = {}

    def listen(self, name: str):
        def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.read[name] = inputs[0]

        return note

    def __call__(self, weights: Float[Tensor, "batch head query key"]) -> Tensor:
        scores = self.factors.scores(self.read["states"], self.read["memory"])
        return scores.masked_fill(weights == 0, -torch.inf).softmax(-1)
