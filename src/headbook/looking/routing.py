"""Information of a token that reaches the next position: through one head, and through all paths.

The path of interest is the edge from a position to the one before it, i ← i−1. A masked edge has
weight zero, and the other weights of its row are scaled to sum to one again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.heads.outputs import output_parts
from headbook.layers.probe import Labels, Split, divided, hits, majority
from headbook.models.capture import Capturable, Point, capture
from headbook.models.edits import edited
from headbook.models.loaded import Loaded
from headbook.types import Kind, UserError

SMALLEST = 1e-9
"""Weight that may be left over in a row whose edge is masked."""
ALL, MASKED, RANDOM = "the head", "edge masked", "random weights"
SOURCE = "all weight on the edge"
WHOLE, CUT, CUT_NEXT, OWN = "all paths", "edges i ← i−1 masked", "edges i ← i+1 masked", "own token"


def without_edge(weights: Float[Tensor, "*batch query key"], offset: int = -1) -> Tensor:
    """Weights without the edge from each query to the key `offset` away; rows sum to one."""
    length = weights.shape[-1]
    edge = torch.ones(length, length, device=weights.device).triu(offset).tril(offset)
    left = weights * (1 - edge)
    return left / left.sum(-1, keepdim=True).clamp(min=SMALLEST)


@dataclass(frozen=True)
class Pairs:
    """Every two neighbouring tokens of the text, special ones left out, in order.

    `contexts` of the later token are by the heads' own weights, with the edge masked, and by
    weights drawn at random; `states` are of the later token, too.
    """

    previous: Labels
    sentence: np.ndarray
    weight: Float[Tensor, "pair layer head"]
    values: Float[Tensor, "pair layer head dim"]
    contexts: dict[str, Float[Tensor, "pair layer head dim"]]
    states: dict[str, Float[Tensor, "pair model"]]


@torch.no_grad()
def pairs(model: Loaded, sentences: Sequence[str], seed: int = 0) -> Pairs:
    """One sentence after another; `values` are of the earlier token. UserError for a model whose
    weights cannot be replaced or whose encoder shows no states."""
    generator = torch.Generator().manual_seed(seed)
    rows = [list(_of(model, each, number, generator)) for number, each in enumerate(sentences)]
    flat = [row for own in rows for row in own]
    if not flat:
        raise UserError("no sentence has two tokens; give longer ones")
    previous, sentence, weight, values, contexts, states = zip(*flat, strict=True)
    return Pairs(
        np.array(previous), np.array(sentence), torch.stack(weight), torch.stack(values),
        {name: torch.stack([each[name] for each in contexts]) for name in contexts[0]},
        {name: torch.stack([each[name] for each in states]) for name in states[0]},
    )  # fmt: skip


def _of(
    model: Loaded, sentence: str, number: int, generator: torch.Generator
) -> Iterator[tuple[int, int, Tensor, Tensor, dict[str, Tensor], dict[str, Tensor]]]:
    (batch,) = model.batches([sentence])
    with capture(model.network, {Point.WEIGHTS, Point.VALUES}) as tape:
        whole = model.encoded(batch)[0]
    weights, values = (
        torch.stack([each[0] for each in tape[Kind.ENCODER, point]])
        for point in (Point.WEIGHTS, Point.VALUES)
    )
    drawn = -torch.rand(weights.shape, generator=generator).clamp(min=SMALLEST).log()
    contexts = {
        ALL: weights @ values,
        MASKED: without_edge(weights) @ values,
        RANDOM: drawn / drawn.sum(-1, keepdim=True) @ values,
    }
    states = {WHOLE: whole}
    for name, offset in ((CUT, -1), (CUT_NEXT, 1)):
        edit = {Point.WEIGHTS: lambda given, offset=offset: without_edge(given, offset)}
        layers = {(Kind.ENCODER, layer): edit for layer in range(len(weights))}
        with edited(model.network, layers):
            states[name] = model.encoded(batch)[0]
    ids, of_text = batch.source[0], (batch.source_mask & ~batch.source_boundary)[0]
    for place in range(1, len(ids)):
        if of_text[place] and of_text[place - 1]:
            yield (
                int(ids[place - 1]), number, weights[:, :, place, place - 1],
                values[:, :, place - 1],
                {name: each[:, :, place] for name, each in contexts.items()},
                {name: each[place] for name, each in states.items()} | {"id": ids[place]},
            )  # fmt: skip


@dataclass(frozen=True)
class Decoded:
    """1 for every scored pair whose earlier token is found; `pair`s are those of frequent tokens.

    `weight` is the mean on the edge in the sentences that probes are fitted on, and `head` (layer,
    head) has most of it. `every` is found by a probe of each head's context, `probed` and `nearest`
    by a probe and by the nearest mean value in that one head, by what made its contexts; `states`
    of last states and own tokens; `majority` names the most frequent token always.
    """

    weight: Float[np.ndarray, "layer head"]
    head: tuple[int, int]
    every: Float[np.ndarray, "pair layer head"]
    probed: dict[str, Float[np.ndarray, " pair"]]
    nearest: dict[str, Float[np.ndarray, " token"]]
    states: dict[str, Float[np.ndarray, " pair"]]
    majority: Float[np.ndarray, " pair"]
    types: int


def decoded(network: Capturable, found: Pairs, sentences: int, frequent: int) -> Decoded:
    """Probes are fitted and means taken on three quarters of the sentences, scored on the others.

    Probes tell the `frequent` most frequent earlier tokens apart; the nearest mean is one of all
    tokens that were seen there, compared behind W_O. UserError for too few sentences.
    """
    split = divided(sentences, sentences // 4).of(found.sentence)
    fitted = np.concatenate([split.fitted, split.chosen])
    common = [name for name, _ in Counter(found.previous[fitted].tolist()).most_common(frequent)]
    kept = Split(*(each[np.isin(found.previous[each], common)] for each in vars(split).values()))

    def probed(given: Tensor) -> Float[np.ndarray, " pair"]:
        return hits(given.double().numpy(), found.previous, kept)

    weight = found.weight[fitted].mean(0).numpy()
    layer, head = divmod(int(weight.argmax()), weight.shape[1])
    every = [[probed(one) for one in own.unbind(1)] for own in found.contexts[ALL].unbind(1)]
    # the most that any weights could bring: the value of the earlier token itself
    contexts = {name: each[:, layer, head]
                for name, each in {**found.contexts, SOURCE: found.values}.items()}  # fmt: skip
    part = output_parts(network, Kind.ENCODER)[layer][head]
    nearest = {
        name: _nearest(contexts[name], contexts[SOURCE], part, found.previous, fitted, split.scored)
        for name in (ALL, MASKED, SOURCE)
    }
    states = {name: probed(each) for name, each in found.states.items() if name != "id"}
    states[OWN] = _by_own(found, kept)
    return Decoded(
        weight, (layer, head), np.array(every).transpose(2, 0, 1),
        {name: probed(each) for name, each in contexts.items()}, nearest, states,
        majority(found.previous, kept), len(np.unique(found.previous[fitted])),
    )  # fmt: skip


def _nearest(
    contexts: Tensor, values: Tensor, part: Tensor, labels: Labels, fitted: np.ndarray,
    scored: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Whether the nearest mean value behind W_O is that of the label; NaN for an unknown one."""
    names, codes = np.unique(labels[fitted], return_inverse=True)
    codes = torch.from_numpy(codes)
    means = torch.zeros(len(names), values.shape[-1]).index_add(0, codes, values[fitted])
    means = means / torch.bincount(codes)[:, None]
    # |(c − m) W|² by the Gram matrix W Wᵀ: as wide as the head, not as the model
    scales, turns = torch.linalg.eigh(part @ part.T)
    map_ = turns * scales.clamp(min=0).sqrt()
    gaps = torch.cdist(contexts[scored] @ map_, means @ map_)
    named = (names[gaps.argmin(1).numpy()] == labels[scored]).astype(float)
    return np.where(np.isin(labels[scored], names), named, np.nan)


def _by_own(found: Pairs, split: Split) -> np.ndarray:
    """The best guess from the later token: its most frequent predecessor, else the majority."""
    own = found.states["id"].numpy()
    fitted = np.concatenate([split.fitted, split.chosen])
    behind: dict[int, Counter] = {}
    for token, before in zip(own[fitted].tolist(), found.previous[fitted].tolist(), strict=True):
        behind.setdefault(token, Counter())[before] += 1
    most = Counter(found.previous[fitted].tolist()).most_common(1)[0][0]
    guesses = [behind[each].most_common(1)[0][0] if each in behind else most
               for each in own[split.scored].tolist()]  # fmt: skip
    return (np.array(guesses) == found.previous[split.scored]).astype(float)
