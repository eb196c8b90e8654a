"""The measuring pass over one text: every measure's sums, for one kind of attention."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from headbook.heads.collect import collect
from headbook.heads.confidence import Confidence
from headbook.heads.diversity import MapEntropy
from headbook.heads.measure import REPLICATES, HeadMeasure, RatioSums
from headbook.heads.nulls import NullValues, null_values
from headbook.heads.offset_baseline import OffsetShare
from headbook.heads.positional import PositionalShare
from headbook.heads.rare import RareChance, RareShare, RareUnit
from headbook.heads.special import SpecialWeight
from headbook.heads.syntactic import SyntacticAccuracy
from headbook.heads.tag_rules import TagRuleShare
from headbook.looking.text import Text
from headbook.models.capture import Capturable
from headbook.models.loaded import Loaded
from headbook.text.alignment import AlignedTree, align_all
from headbook.text.batches import Batch
from headbook.text.subwords import frequency_ranks
from headbook.types import Kind

Sums = dict[str, RatioSums]
"""By name of the measure: confidence, positional, special, entropy, rare, syntactic, …"""


def bar(items: Iterable, what: str, unit: str, shown: bool = True) -> tqdm:
    """A progress bar on standard error."""
    return tqdm(items, desc=what, unit=unit, mininterval=0.5, disable=not shown)


def aligned(model: Loaded, text: Text) -> list[AlignedTree]:
    """Every tree laid on the model's own tokens; empty where the text has no trees."""
    return [align_all(tree, model.spans(tree.text)) for tree in text.trees]


def ranks_in(batches: Iterable[Batch]) -> Int[Tensor, " vocabulary"]:
    """Frequency rank of every source token by its count in these batches, 0 the most frequent."""
    rows = [batch.source[batch.source_mask & ~batch.source_boundary].tolist() for batch in batches]
    largest = max((max(row, default=0) for row in rows), default=0)
    specials = max(int(batch.source.max()) for batch in batches)
    return frequency_ranks(rows, max(largest, specials) + 1)


def pass_over(
    network: Capturable, batches: Sequence[Batch], measures: Mapping[str, HeadMeasure], shown: bool
) -> Sums:
    """The measures' sums over the batches, one forward pass for all of them."""
    show = partial(bar, what="measuring", unit="batch", shown=shown)
    collect(network, batches, list(measures.values()), show)
    return {name: measure.sums() for name, measure in measures.items()}


def attention_measures(kind: Kind, replicates: int = REPLICATES) -> dict[str, HeadMeasure]:
    """The measures of any kind of attention; they need neither trees nor frequencies."""
    return {
        "confidence": Confidence(kind, replicates=replicates),
        "positional": PositionalShare(kind, replicates=replicates),
        "special": SpecialWeight(kind, replicates=replicates),
        "entropy": MapEntropy(kind, replicates=replicates),
    }


def role_measures(
    trees: Sequence[AlignedTree], ranks: Tensor, replicates: int = REPLICATES
) -> dict[str, HeadMeasure]:
    """Measures of encoder self-attention only: rare words and, where there are trees, syntax."""
    found: dict[str, HeadMeasure] = {
        "rare": RareShare(ranks, replicates=replicates),
        "rare_sentences": RareShare(ranks, RareUnit.SENTENCE, replicates=replicates),
    }
    if trees:
        found["syntactic"] = SyntacticAccuracy(trees, replicates=replicates)
    return found


def null_measures(
    kind: Kind, roles: Callable[[], dict[str, HeadMeasure]]
) -> dict[str, HeadMeasure]:
    """Measures for null networks, without replicates."""
    shared = attention_measures(kind, replicates=0)
    return {name: shared[name] for name in ("confidence", "positional")} | roles()


def baseline_measures(trees: Sequence[AlignedTree], ranks: Tensor) -> dict[str, HeadMeasure]:
    """Baselines from the text without any model: chance, fixed offsets, parts of speech."""
    found: dict[str, HeadMeasure] = {
        "rare_chance": RareChance(ranks),
        "rare_sentences_chance": RareChance(ranks, RareUnit.SENTENCE),
    }
    if trees:
        found["offsets"] = OffsetShare(trees)
        if all(tree.tags for tree in trees):
            found["tags"] = TagRuleShare(trees)
    return found


def nulls_of(
    network: Capturable,
    batches: Sequence[Batch],
    measures: Callable[[], Mapping[str, HeadMeasure]],
    count: int,
    shown: bool,
) -> NullValues:
    """Scores of heads of the same network with permuted or redrawn weights on these batches."""
    with bar(range(count * len(batches)), "null networks", "batch", shown) as progress:

        def counted(items: Iterable[Batch]) -> Iterable[Batch]:
            for item in items:
                yield item
                progress.update()

        return null_values(network, batches, measures, count, progress=counted)
