"""Heads that matter in a sentence, and gates that read it, as page 58 measures them."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from headbook.corpora.batches import Batch
from headbook.looking.effects import VECTORS, Effects, Progress, compared_by, effects, joined
from headbook.models.capture import Capturable, Point, capture
from headbook.models.gates import closed
from headbook.models.loaded import Loaded, pooled
from headbook.pruning.choosing import Chooser, given_gates
from headbook.types import HeadId, Kind

BIAS_RATE, WEIGHT_RATE = 0.1, 0.05
"""Adam's rates of b and W. A step moves W x by at most that times √width, as x has length 1."""


def halved(
    model: Loaded, batches: Sequence[Batch], heads: Sequence[HeadId], progress: Progress = iter
) -> Float[np.ndarray, "half head sentence"]:
    """The effect of closing each head on the even and on the odd tokens of every sentence.

    Of the predicted tokens where the model has a loss; else of the sentence's vector, taken over
    every other token.
    """
    compared = compared_by(model, batches[0])
    with torch.inference_mode():
        whole = [compared.halves(batch) for batch in batches]
        rows: list[list[Tensor]] = [[], []]
        for head in progress(heads):
            with closed(model.network, [head]):
                changed = [compared.halves(batch) for batch in batches]
            for half, row in enumerate(rows):
                pairs = [(before[half], after[half]) for before, after in
                         zip(whole, changed, strict=True)]  # fmt: skip
                row.append(torch.cat([compared.change(*pair) for pair in pairs]))
    order = torch.cat([batch.sentences for batch in batches]).argsort()
    return torch.stack([torch.stack(each) for each in rows])[..., order].double().numpy()


def top(values: Float[np.ndarray, "head sentence"], count: int) -> np.ndarray:
    """True for the `count` largest of each sentence, [head, sentence]."""
    ranks = (-values).argsort(0, kind="stable").argsort(0)
    return ranks < count


def overlaps(
    halves: Float[np.ndarray, "half head sentence"], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Shared share of two top lists, per sentence: of its own two halves, and of one half and the
    other half of every other sentence, on average."""
    first, second = (top(each, count).astype(float) for each in halves)
    shared = first.T @ second / count
    own = shared.diagonal()
    others = (shared.sum(1) + shared.sum(0) - 2 * own) / (2 * (len(own) - 1))
    return own, others


def vectors(model: Loaded, batches: Iterable[Batch]) -> list[Float[Tensor, "_ width"]]:
    """A vector per sentence: the first layer's values averaged over its tokens.

    Values are a linear map of the embeddings, so a gate linear in them is linear in the mean
    embedding; and every model that is captured has them.
    """
    kind = next(iter(model.network.attentions()))[0]
    found = []
    for batch in batches:
        with torch.inference_mode(), capture(model.network, {Point.VALUES}) as tape:
            model.network(batch)
        values = tape[kind, Point.VALUES][0].transpose(1, 2).flatten(2)
        real = batch.target_mask if kind is Kind.DECODER else batch.source_mask
        found.append(pooled(values, real).clone())
    return found


def standardised(parts: Sequence[Tensor], by: Sequence[Tensor]) -> list[Tensor]:
    """Mean 0 and variance 1 by the sentences of `by`, divided by √width: W x stays of order W."""
    known = torch.cat(list(by))
    spread = known.std(0).clamp(min=1e-6) * known.shape[1] ** 0.5
    return [(part - known.mean(0)) / spread for part in parts]


def train(
    model: Loaded,
    kind: Kind,
    batches: Sequence[Batch],
    x: Sequence[Tensor],
    chooser: Chooser,
    updates: int,
    seed: int,
    progress: Progress = iter,
    weight_rate: float = WEIGHT_RATE,
    half: int | None = None,
) -> Chooser:
    """The chooser after so many updates on the batches in random order; the model stays as it is.

    It lowers what `effects` measures: nats per predicted token, or the distance of vectors; with
    `half` (0 or 1) those of every other token alone, as `halved` divides a sentence.
    """
    compared = compared_by(model, batches[0])

    def read(batch: Batch) -> Tensor:
        return compared.read(batch) if half is None else compared.halves(batch)[half]

    noise = torch.Generator().manual_seed(seed)
    rates = [{"params": [chooser.bias], "lr": BIAS_RATE}]
    if chooser.weight.requires_grad:
        rates.append({"params": [chooser.weight], "lr": weight_rate})
    optimiser = torch.optim.Adam(rates)
    with _frozen(model.network), torch.random.fork_rng():
        torch.manual_seed(seed)
        with torch.no_grad():
            whole = [read(batch) for batch in batches]
        order: list[int] = []
        for _ in progress(range(updates)):
            if not order:
                order = torch.randperm(len(batches), generator=noise).tolist()
            at = order.pop()
            with given_gates(model.network, kind, chooser.train()(x[at])):
                changed = compared.change(whole[at], read(batches[at]))
            loss = changed.sum() / compared.weight(batches[at]).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return chooser.eval()


@contextmanager
def _frozen(network: nn.Module | Capturable) -> Iterator[None]:
    """Without gradients of the network's own weights."""
    wanted = [each for each in network.parameters() if each.requires_grad]
    try:
        for each in wanted:
            each.requires_grad_(requires_grad=False)
        yield
    finally:
        for each in wanted:
            each.requires_grad_(requires_grad=True)


def gated(
    model: Loaded,
    kind: Kind,
    batches: Sequence[Batch],
    gates: Sequence[Float[Tensor, "_ head"]],
) -> Effects:
    """The effect of these gates, a row per sentence of each batch."""
    return joined([
        effects(model, [batch], [partial(given_gates, model.network, kind, rows)])
        for batch, rows in zip(batches, gates, strict=True)
    ])  # fmt: skip


def gated_halves(
    model: Loaded,
    kind: Kind,
    batches: Sequence[Batch],
    gates: Sequence[tuple[Float[Tensor, "_ head"], Float[Tensor, "_ head"]]],
) -> Effects:
    """The effect on each half of a sentence's tokens of the gates given for that half.

    Nats of both halves are added; distances of vectors are averaged.
    """
    compared, parts = compared_by(model, batches[0]), []
    for batch, pair in zip(batches, gates, strict=True):
        with torch.inference_mode():
            whole, added = compared.halves(batch), []
            for half, rows in enumerate(pair):
                with given_gates(model.network, kind, rows):
                    added.append(compared.change(whole[half], compared.halves(batch)[half]))
        weights = compared.weight(batch).double() * (2 if compared.unit == VECTORS else 1)
        parts.append(Effects(sum(added)[None].double(), weights, batch.sentences, compared.unit))
    return joined(parts)


def by_sentence(
    table: Shaped[np.ndarray, "head sentence"], batches: Sequence[Batch]
) -> list[Float[Tensor, "_ head"]]:
    """Columns of a table over sentences as rows of each batch."""
    rows = torch.from_numpy(np.ascontiguousarray(table.T, dtype=np.float32))
    return [rows[batch.sentences] for batch in batches]
