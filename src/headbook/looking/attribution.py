"""Attribution of a classifier's decision to the words of a sentence, by several methods.

Gradient × input, integrated gradients (Sundararajan et al. 2017) and sampled Shapley values
(Štrumbelj and Kononenko 2010) are captum's. All but `sensitivity` and `left_out` have a sign:
positive words speak for the class that was predicted.
"""

import importlib.util
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headbook.corpora.batches import PAD
from headbook.models.pooled import PooledClassifier, without
from headbook.types import UserError

Ids = Int[Tensor, "batch word"]
Values = Float[Tensor, "batch word"]
STEPS = 20
"""Of the path from no sentence to the sentence."""
SAMPLES = 10
"""Orders in which words are put in, per sentence."""


def sensitivity(model: PooledClassifier, ids: Ids) -> Values:
    """|x_t · ∂ŷ/∂x_t| with attention held fixed (Jain and Wallace 2019, section 4.1)."""
    vectors = model.words(ids).detach().requires_grad_()
    with torch.no_grad():
        weights = model(ids).weights
    with torch.enable_grad():
        share = model.read(vectors, ids != PAD, weights).logits.sigmoid().sum()
        (gradient,) = torch.autograd.grad(share, vectors)
    return (gradient * vectors.detach()).sum(-1).abs()


@torch.no_grad()
def left_out(model: PooledClassifier, ids: Ids) -> Values:
    """|ŷ − ŷ without word t|."""
    whole = model(ids).logits.sigmoid()
    columns = []
    for place in range(ids.shape[1]):
        removed = torch.zeros_like(ids, dtype=torch.bool)
        removed[:, place] = True
        columns.append((model(without(ids, removed)).logits.sigmoid() - whole).abs())
    return torch.stack(columns, 1).masked_fill(ids == PAD, 0.0)


def gradient_times_input(model: PooledClassifier, ids: Ids) -> Values:
    """x_t · ∂z/∂x_t of the predicted class's logit z, through the attention weights as well."""
    found = _captum().InputXGradient(_of_vectors(model))
    vectors, given = _inputs(model, ids)
    return found.attribute(vectors, additional_forward_args=given).sum(-1).detach()


def integrated_gradients(model: PooledClassifier, ids: Ids) -> Values:
    """The gradient's mean on the way from zero vectors, times the vectors."""
    found = _captum().IntegratedGradients(_of_vectors(model))
    vectors, given = _inputs(model, ids)
    found = found.attribute(vectors, additional_forward_args=given, n_steps=STEPS)
    return found.sum(-1).detach().float()


def shapley(model: PooledClassifier, ids: Ids) -> Values:
    """A word's mean effect on the logit when words are put in one by one in random orders."""
    signs = _signs(model, ids)

    def logits(there: Tensor, ids: Tensor, signs: Tensor) -> Tensor:
        return model(without(ids, there < 0.5)).logits * signs

    there = (ids != PAD).float()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        return _captum().ShapleyValueSampling(logits).attribute(
            there, additional_forward_args=(ids, signs), n_samples=SAMPLES
        )  # fmt: skip


def _captum():
    """captum's methods; UserError where it is not installed."""
    if importlib.util.find_spec("captum") is None:
        raise UserError(
            "captum is not installed: python -m pip install -c constraints.txt -e '.[seeing]'"
        )
    from captum import attr

    return attr


def _signs(model: PooledClassifier, ids: Ids) -> Float[Tensor, " batch"]:
    with torch.no_grad():
        return torch.where(model(ids).logits > 0, 1.0, -1.0)


def _of_vectors(model: PooledClassifier) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda vectors, ids, signs: model.read(vectors, ids != PAD).logits * signs


def _inputs(model: PooledClassifier, ids: Ids) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    vectors = model.words(ids).detach().requires_grad_()
    return vectors, (ids, _signs(model, ids))
