"""The measuring pass over one text: every measure's sums, for one kind of attention."""

from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor
from tqdm import tqdm

from headbook.heads import baselines
from headbook.heads.collect import recordings
from headbook.heads.measure import REPLICATES, Measure, RatioSums, sums
from headbook.heads.scores import (
    confidence,
    entropy,
    positional,
    ranks_in,
    rare,
    rare_chance,
    special,
    syntactic,
)
from headbook.looking.text import Text
from headbook.models.capture import Capturable
from headbook.models.loaded import Loaded
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.batches import Batch
from headbook.types import Kind

OF_ANY_KIND = {
    "confidence": lambda kind: partial(confidence, kind=kind),
    "positional": lambda kind: partial(positional, kind=kind),
    "special": lambda kind: partial(special, kind=kind),
    "entropy": lambda kind: partial(entropy, kind=kind),
}
"""Measures of any kind of attention; they need neither trees nor frequencies."""

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
    """The measures of a kind of attention, with `ranks` also those of encoders: rare words, and
    syntax where there are trees."""
    found: dict[str, Measure] = {name: make(kind) for name, make in OF_ANY_KIND.items()}
    if ranks is not None:
        found["rare"] = partial(rare, ranks=ranks)
        found["rare_sentences"] = partial(rare, ranks=ranks, by_sentence=True)
    if trees:
        found["syntactic"] = partial(syntactic, trees=trees)
    return found


def measured(
    network: Capturable,
    batches: Sequence[Batch],
    of: dict[str, Measure],
    replicates: int = REPLICATES,
    shown: bool = False,
) -> Sums:
    """The measures' sums over the batches, one forward pass for all of them."""
    show = partial(bar, what="measuring", unit="batch", shown=shown)
    return sums(of, recordings(network, batches, progress=show), replicates)


def encoder_sums(
    model: Loaded,
    batches: Sequence[Batch],
    trees: Sequence[AlignedTree],
    shown: bool = False,
) -> Sums:
    """All that is measured of an encoder, and its baselines, from the text without any model:
    chance, fixed offsets, parts of speech."""
    ranks = ranks_in(batches)
    of = measures(Kind.ENCODER, trees, ranks)
    of["rare_chance"] = partial(rare_chance, ranks=ranks)
    of["rare_sentences_chance"] = partial(rare_chance, ranks=ranks, by_sentence=True)
    found = measured(model.network, batches, of, shown=shown)
    if trees:
        rivals = {"offsets": baselines.offset_hits(trees)}
        if all(tree.tags for tree in trees):
            rivals["tags"] = baselines.rule_hits(trees)
        asked = torch.from_numpy(baselines.asked(trees))[:, None]
        numbers = torch.arange(len(trees))
        for name, hits in rivals.items():
            found[name] = RatioSums.over(torch.from_numpy(hits), asked, numbers, REPLICATES)
    return found
