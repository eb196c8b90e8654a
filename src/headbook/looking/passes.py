"""The measuring pass over one text: every measure's sums, for one kind of attention."""

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor
from tqdm import tqdm

from headbook.heads import baselines
from headbook.heads.collect import layer_sums
from headbook.heads.measure import REPLICATES, Measure, RatioSums
from headbook.heads.scores import (
    confidence,
    confidences,
    entropy,
    first,
    positional,
    positional_chance,
    ranks_in,
    rare,
    rare_chance,
    special,
    syntactic,
)
from headbook.looking.text import Text
from headbook.models.loaded import Loaded
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.batches import Batch
from headbook.types import Kind

OF_ANY_KIND: dict[str, Measure] = {
    "confidence": confidence,
    "positional": positional,
    "special": special,
    "entropy": entropy,
}
"""Measures of any kind of attention; they need neither trees nor frequencies."""
OF_CAUSAL: dict[str, Measure] = {
    "first": first,
    "confidences": confidences,
    "positional_chance": positional_chance,
}
"""Measures of causal self-attention beside these."""

Sums = dict[str, RatioSums]
"""By name of the measure: confidence, positional, special, entropy, rare, syntactic, …"""


def bar(items: Iterable, what: str, unit: str, shown: bool = True) -> tqdm:
    """A progress bar on standard error."""
    return tqdm(items, desc=what, unit=unit, mininterval=0.5, disable=not shown)


def aligned(model: Loaded, text: Text) -> list[AlignedTree]:
    """Every tree laid on the model's own tokens; empty where the text has no trees."""
    return [align_all(tree, model.spans(tree.text)) for tree in text.trees]


def measures(
    kind: Kind, trees: Sequence[AlignedTree] = (), ranks: Tensor | None = None
) -> dict[str, Measure]:
    """The measures of a kind of attention, with `ranks` also those of a text that is read: rare
    words, and syntax where there are trees."""
    causal = OF_CAUSAL if kind is Kind.DECODER else {}
    found = {name: partial(each, kind=kind) for name, each in (OF_ANY_KIND | causal).items()}
    if ranks is not None:
        found["rare"] = partial(rare, ranks=ranks, kind=kind)
        if kind is Kind.ENCODER:
            found["rare_sentences"] = partial(rare, ranks=ranks, by_sentence=True)
    if trees:
        found["syntactic"] = partial(syntactic, trees=trees, kind=kind)
    return found


def text_sums(
    model: Loaded,
    batches: Sequence[Batch],
    trees: Sequence[AlignedTree],
    shown: bool = False,
    kind: Kind = Kind.ENCODER,
) -> Sums:
    """All that is measured of the attention of the text itself, and its baselines, from the text
    without any model: chance, fixed offsets, parts of speech."""
    ranks, causal = ranks_in(batches, kind), kind is Kind.DECODER
    of = measures(kind, trees, ranks)
    for name in {"rare", "rare_sentences"} & of.keys():
        of[f"{name}_chance"] = partial(rare_chance, **of[name].keywords)
    show = partial(bar, what="measuring", unit="batch", shown=shown)
    found = layer_sums(model.network, batches, kind, of, progress=show)
    if trees:
        rivals = {"offsets": baselines.offset_hits(trees, causal)}
        if all(tree.tags for tree in trees):
            rivals["tags"] = baselines.rule_hits(trees, causal)
        if causal:
            rivals["syntactic_chance"] = baselines.chance_hits(trees)
        asked = torch.from_numpy(baselines.asked(trees, causal))[:, None]
        numbers = torch.arange(len(trees))
        for name, hits in rivals.items():
            found[name] = RatioSums.over(torch.from_numpy(hits), asked, numbers, REPLICATES)
    return found
