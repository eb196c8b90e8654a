"""Language models whose heads share keys and values, or are fewer, more or unequal (page 38).

Groups as in Ainslie et al. (2023), heads that grow in number with depth as in Mehta et al. (2024),
and DeLighT's blocks (Mehta et al. 2021). The published size, ten models with three seeds each, took
five hours on two cores.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd
import torch

from headbook.experiments.small_models import Setting, each_kept, texts, train
from headbook.heads.four_metrics import DISSIMILARITY, FREE, four_metrics
from headbook.models.delight import DelightTransformer
from headbook.models.grouped import pooled
from headbook.models.transformer import HeadCounts, Transformer, TransformerConfig
from headbook.text.batches import Batch
from headbook.training.scoring import nats
from headbook.types import Kind

WHOLE, DELIGHT, NARROW = "8 heads", "DeLighT", "8 heads, width 96"
SHARED = {f"8 heads, {count} shared": {"key_value_heads": count} for count in (4, 2, 1)}
COUNTS = {f"{count} heads": {"heads": count} for count in (2, 4, 16)}
RISING = {"heads by layer 4-5-6-6-7-8": {"head_counts": HeadCounts((), (4, 5, 6, 6, 7, 8), ())}}
CHANGES = {WHOLE: {}, **SHARED, **COUNTS, **RISING, DELIGHT: {"heads": 1}, NARROW: {}}
"""What each variant changes in a transformer's shape; DeLighT has blocks of its own, too."""
HELD = 64
KEYS = ["variant", "seed"]


def network_of(variant: str, config: TransformerConfig) -> Transformer:
    """The variant of a network of that shape, with random weights."""
    shape = replace(config, **CHANGES[variant])
    return DelightTransformer(shape) if variant == DELIGHT else Transformer(shape)


@torch.no_grad()
def by_group(network: Transformer, _: Sequence[Kind], batches: Sequence[Batch]) -> pd.DataFrame:
    """Output dissimilarity of two heads of one group of keys, and of two groups, by layer.

    Nothing where heads share nothing, or all heads share all.
    """
    heads, groups = network.config.heads, network.config.key_value_heads or 1
    if groups == 1:
        return pd.DataFrame()
    pairs = four_metrics(network, Kind.DECODER, batches)[DISSIMILARITY, FREE]
    group = torch.arange(heads) // (heads // groups)
    same, above = group[:, None] == group, torch.ones(heads, heads).triu(1).bool()
    parts = {"within": pairs[:, above & same], "across": pairs[:, above & ~same]}
    found = {name: part.double().mean(1).tolist() for name, part in parts.items()}
    return pd.DataFrame({"layer": range(1, len(pairs) + 1), **found})


def measured(setting: Setting, variant: str, seed: int) -> pd.DataFrame:
    """Losses in nats per token, weights in millions, and numbers cached per token; one row.

    `held_nats`, where heads share keys and of the whole model, is of the first segments of
    validation text. Of the whole model there are also `averaged_nats_4` and so on, the same loss
    with its keys and values averaged in so many groups, and of models with groups `within_1` and so
    on: dissimilarity of heads by layer, mean over looks in the last three fifths of the updates.
    """
    if variant == NARROW:
        setting = replace(setting, width=setting.width * 3 // 4)
    network, _, looks = train(setting, seed, make=partial(network_of, variant), look=by_group)
    text = texts(setting.corpus, setting.vocabulary, setting.context)
    held = text.valid[:HELD]
    row = {"test_nats": nats(network, text.test, 4096), **sizes(network)}
    if variant in (WHOLE, *SHARED):
        row["held_nats"] = nats(network, held, 4096)
    if variant == WHOLE:
        counts = [change["key_value_heads"] for change in SHARED.values()]
        row |= {f"averaged_nats_{n}": nats(pooled(network, n), held, 4096) for n in counts}
    if len(looks):
        means = looks.groupby("layer").mean()
        row |= {f"{part}_{layer}": means.at[layer, part] for part in means for layer in means.index}
    return pd.DataFrame([row])


def sizes(network: Transformer) -> dict[str, float]:
    """Weights in millions, of all and of the blocks, and numbers that decoding caches per token."""
    parts = {"million": network, "blocks_million": network.decoder}
    found = {name: sum(map(torch.numel, part.parameters())) / 1e6 for name, part in parts.items()}
    blocks = [block for _, _, block in network.attentions()]
    cached_numbers = sum(each.key.out_features + each.value.out_features for each in blocks)
    return {"cached_numbers": float(cached_numbers), **found}


def sweep(seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Losses and sizes, averaged models, and dissimilarity by group; each training is kept."""
    runs = [{"variant": each, "seed": seed} for seed in range(seeds) for each in CHANGES]
    whole = each_kept(measured, Setting(), runs)
    few, parts = whole.dropna(subset="averaged_nats_4"), ["within", "across"]
    averaged = pd.wide_to_long(few, "averaged_nats", KEYS, "groups", "_")
    averaged = averaged[["held_nats", "averaged_nats"]].reset_index()
    groups = pd.wide_to_long(whole.dropna(subset="within_1"), parts, KEYS, "layer", "_")
    quality = ["test_nats", "held_nats", "cached_numbers", "million", "blocks_million"]
    return whole[[*KEYS, *quality]], averaged, groups[parts].reset_index()
