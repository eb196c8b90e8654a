"""Page 38: shared keys and values, fewer, more and unequal heads, and DeLighT's single one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.language import (
    DelightRun,
    LanguageModel,
    LanguageRun,
    SharingRun,
    language_model,
)
from headbook.artefacts.watching import PROBE
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._seeds import differences, mean_table, of_each_seed, over_seed
from headbook.chapters.diversity._training_claims import at_the_end, last_looks
from headbook.chapters.diversity._watched import labels
from headbook.chapters.tables import claim_row, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.heads.four_metrics import DISSIMILARITY, FREE
from headbook.models.grouped import pooled
from headbook.runs.store import Store

NUMBER = 38
TITLE = "Can heads share keys and values?"
WORK = "ainslie2023"
KEYS = ("variant", "seed")

SEGMENTS = 64
"""Of validation text, on which a converted model is measured."""
OURS, DELIGHT = "transformer", "DeLighT"
SAME, OTHER = "of one group", "of two groups"
SHARED = "keys and values shared"


Parameters = Trained


@dataclass(frozen=True)
class Variant:
    """A language model with its own number of heads, of key-value heads, or of both by layer."""

    model: LanguageModel

    @property
    def run(self) -> LanguageRun:
        return self.model.run

    @property
    def shared(self) -> int:
        """Key-value heads of a layer: as many as heads where none are shared."""
        own = self.run.key_value_heads if isinstance(self.run, SharingRun) else None
        return self.run.size.heads if own is None else own

    @property
    def layer_heads(self) -> tuple[int, ...]:
        own = self.run.layer_heads if isinstance(self.run, SharingRun) else None
        return own or (self.run.size.heads,) * self.run.size.layers

    @cached_property
    def name(self) -> str:
        heads = self.run.size.heads
        if len(set(self.layer_heads)) > 1:
            return f"heads by layer {'-'.join(map(str, self.layer_heads))}"
        plural = "heads" if heads > 1 else "head"
        return f"{heads} {plural}" if not self.shares else f"{heads} heads, {self.shared} shared"

    @property
    def shares(self) -> bool:
        return self.shared < self.run.size.heads

    @property
    def labels(self) -> dict[str, object]:
        found = labels(self.model)
        return found | {"model": f"{found['corpus']} {self.name}"}


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else quality, diversity, the cost of conversion, claims."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile, over all of its seeds; models that the store lacks are trained."""
    return of_each_seed(config.of_varied_seeds(), lambda each: _of_seed(each, store))


def _of_seed(config: Config, store: Store) -> Tables:
    base = config.varied_model()
    runs = (base, *config.sharing_models())
    variants = [Variant(language_model(run, store)) for run in runs]
    quality = pd.DataFrame(map(_quality, variants))
    groups = pd.DataFrame([row for each in variants for row in _groups(each)])
    converted = pd.DataFrame(list(_converted(variants)))
    models = [language_model(run, store) for run in config.light_models()]
    light = pd.DataFrame(map(_light, models))
    return {
        "quality": quality,
        "diversity": stacked(map(_diversity, variants)),
        "groups": groups,
        "converted": converted,
        "light": light,
        "claims": pd.DataFrame(
            [*_claims(variants, quality, groups, converted), *_light_claims(models, light)]
        ),
    }


def _quality(each: Variant) -> dict[str, object]:
    run, scores = each.run, each.model.scores
    kept = run.size.layers * each.shared if each.shares else sum(each.layer_heads)
    weights = sum(weight.numel() for weight in each.model.untrained().parameters())
    return {
        "variant": each.name, "heads": run.size.heads, "key_value_heads": each.shared,
        "parameters_million": weights / 1e6,
        # of keys and values, which decoding keeps of every token
        "cached_numbers_a_token": 2 * kept * run.size.width // run.size.heads,
        "test_nats": scores["test_nats"], "test_perplexity": scores["test_perplexity"],
        "test_perplexity_word": scores["test_perplexity_word"],
    }  # fmt: skip


def _diversity(each: Variant) -> pd.DataFrame:
    """One row per layer and metric at the end of training."""
    named = {"variant": each.name, "heads": each.run.size.heads, "key_value_heads": each.shared}
    return at_the_end(each.model).assign(**named)


def _groups(each: Variant) -> Iterator[dict[str, object]]:
    """One row per layer: dissimilarity of heads that share keys and values, and of others."""
    if not 1 < each.shared < each.run.size.heads:
        return
    looks = each.model.looks
    found = [look.found[PROBE][DISSIMILARITY, FREE] for look in looks[-last_looks(len(looks)) :]]
    for layer in range(each.run.size.layers):
        values = np.mean([of_look[layer].numpy() for of_look in found], axis=0)
        same, other = by_group(values, each.shared)
        yield {"variant": each.name, "layer": layer + 1, SAME: same, OTHER: other}


def by_group(values: Float[np.ndarray, "head head"], groups: int) -> tuple[float, float]:
    """Mean over two heads of one group and of two groups; neighbours are a group."""
    heads = len(values)
    group = np.arange(heads) // (heads // groups)
    same = group[:, None] == group[None, :]
    above = np.triu(np.ones((heads, heads), dtype=bool), 1)
    return float(values[above & same].mean()), float(values[above & ~same].mean())


def _converted(variants: Sequence[Variant]) -> Iterator[dict[str, object]]:
    """One row per number of key-value heads: the whole model with its own averaged, untrained."""
    base = variants[0].model
    segments, whole = base.segments(base.text.valid)[:SEGMENTS], base.model()
    before = base.nats(whole, segments)
    for each in variants[1:]:
        if each.shares:
            yield {"key_value_heads": each.shared, "whole_nats": before,
                   "converted_nats": base.nats(pooled(whole, each.shared), segments),
                   "trained_so_nats": base.nats(each.model.model(), segments)}  # fmt: skip


def _light(model: LanguageModel) -> dict[str, object]:
    """Quality beside weights, of all and of the blocks: embeddings depend on the width alone."""
    run, made, scores = model.run, model.untrained(), model.scores
    blocks = DELIGHT if isinstance(run, DelightRun) else OURS
    counts = [sum(each.numel() for each in part.parameters()) for part in (made, made.decoder)]
    return {
        "blocks": blocks, "width": run.size.width, "parameters_million": counts[0] / 1e6,
        "of_blocks_million": counts[1] / 1e6, "test_nats": scores["test_nats"],
        "test_perplexity": scores["test_perplexity"],
    }  # fmt: skip


def _light_claims(
    models: Sequence[LanguageModel], light: pd.DataFrame
) -> Iterator[dict[str, object]]:
    whole, delight, thinner = light["test_nats"]
    named = labels(models[1])
    named["model"] = f"{named['corpus']} {DELIGHT}"
    yield claim_row("delight-as-good-and-lighter", named, delight - whole)
    yield claim_row("delight-better-for-its-weights", named, delight - thinner)


def _claims(
    variants: Sequence[Variant],
    quality: pd.DataFrame,
    groups: pd.DataFrame,
    converted: pd.DataFrame,
) -> Iterator[dict[str, object]]:
    nats = dict(zip(quality["variant"], quality["test_nats"], strict=True))
    whole = variants[0]
    for each in variants[1:]:
        if 1 < each.shared < each.run.size.heads:
            gap = nats[each.name] - nats[whole.name]
            yield claim_row("gqa-close-to-full", each.labels, gap)
            rows = groups[groups["variant"] == each.name]
            yield claim_row("gqa-sharers-alike", each.labels, (rows[SAME] - rows[OTHER]).mean())
            least = [one for one in variants if one.shares and one.shared == 1]
            gap = nats[least[0].name] - nats[each.name] if least else float("nan")
            yield claim_row("gqa-multi-query-worse", each.labels, gap)
    for row in converted.itertuples():
        of_count = next(one for one in variants if one.shares and one.shared == row.key_value_heads)
        cost = row.converted_nats - row.whole_nats
        yield claim_row("gqa-conversion-needs-training", of_count.labels, cost)


def effects(tables: Tables) -> pd.DataFrame:
    """Test loss of every model minus that of the first, in nats per token, mean over seeds.

    `changed` says in which way the model differs; `converted` is the rise of the first model's loss
    on validation text when its key-value heads are averaged to as many, without further training.
    """
    apart = [
        differences(rows, rows["variant"].iloc[0], "test_nats")
        for rows in (tables["quality"], _light_variants(tables))
    ]
    rows = over_seed(pd.concat(apart), ["variant"], "value")
    rows["changed"] = rows["variant"].map(_changed)
    converted = conversion(tables).set_index("key_value_heads")["value"]
    counts = tables["quality"].drop_duplicates("variant").set_index("variant")["key_value_heads"]
    rows["converted"] = rows["variant"].map(counts).map(converted)
    rows.loc[rows["changed"] != SHARED, "converted"] = float("nan")
    return rows


def _light_variants(tables: Tables) -> pd.DataFrame:
    rows = tables["light"]
    names = [f"{row.blocks}, width {row.width}" for row in rows.itertuples()]
    return rows.assign(variant=names)


def _changed(variant: str) -> str:
    if "shared" in variant:
        return SHARED
    return "blocks or width" if "width" in variant else "number of heads"


def conversion(tables: Tables) -> pd.DataFrame:
    """Rise of the loss when key-value heads are averaged, by how many are left, over seeds."""
    rows = tables["converted"]
    rows = rows.assign(rise=rows["converted_nats"] - rows["whole_nats"])
    return over_seed(rows, ["key_value_heads"], "rise")


def groups(tables: Tables) -> pd.DataFrame:
    """Output dissimilarity by layer of two heads of one group and of two, mean over seeds.

    The column `heads` names both; of the model with the most groups.
    """
    rows = tables["groups"]
    rows = rows[rows["variant"] == rows["variant"].iloc[0]]
    means = rows.groupby("layer")[[SAME, OTHER]].mean().reset_index()
    return means.melt("layer", [SAME, OTHER], var_name="heads", value_name="value")


def sharers(tables: Tables) -> pd.DataFrame:
    """Dissimilarity of two heads of one group minus that of two of two groups, over seeds."""
    rows = tables["groups"]
    rows = rows.assign(more=rows[SAME] - rows[OTHER])
    means = rows.groupby(["variant", "seed"], sort=False)["more"].mean().reset_index()
    return over_seed(means, ["variant"], "more")


def sizes(tables: Tables) -> pd.DataFrame:
    """Parameters, numbers cached per token of decoding, and losses, one row per model."""
    rows = tables["quality"].drop(columns=["heads", "key_value_heads"])
    rows = mean_table(rows, ["variant"], "test_nats").round(3)
    return rows.rename(
        columns=lambda name: name.replace("_", " ").replace(" a token", " per token")
    )


def light(tables: Tables) -> pd.DataFrame:
    """DeLighT's blocks beside ours at the same width, and at as many weights."""
    rows = mean_table(tables["light"], ["blocks", "width"], "test_nats").round(3)
    return rows.rename(columns=lambda name: name.replace("_", " "))


def by_layer(tables: Tables) -> pd.DataFrame:
    """Output dissimilarity by layer at the end of training, mean over seeds."""
    rows = tables["diversity"].query("metric == @DISSIMILARITY")
    return rows.groupby(["variant", "layer"], sort=False)["value"].mean().dropna().reset_index()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, in nats per token; intervals over seeds."""
    rows, quality = effects(tables).set_index("variant"), tables["quality"]
    base = quality[quality["variant"] == quality["variant"].iloc[0]]
    blocks = tables["light"].drop_duplicates(["blocks", "width"])["of_blocks_million"].tolist()
    found: Facts = {
        "seeds": str(quality["seed"].nunique()),
        "base_perplexity": f"{base['test_perplexity'].mean():.0f}",
        "blocks_ours": f"{blocks[0]:.2f}",
        "blocks_delight": f"{blocks[1]:.2f}",
    }
    counts = quality.drop_duplicates("variant").set_index("variant")["key_value_heads"]
    for variant, row in rows.iterrows():
        key = _key(str(variant), counts)
        found[key] = words.signed(row["value"], 3)
        found[f"{key}_between"] = words.between(row["low"], row["high"], 3)
    grouped = rows[(rows["changed"] == SHARED) & (rows.index.map(counts) > 1)]["value"]
    if len(grouped):
        found["groups_cost"] = words.percents(np.exp(grouped) - 1)  # of perplexity
    for row in conversion(tables).itertuples():
        found[f"converted_{row.key_value_heads}"] = words.signed(row.value, 3)
        found[f"converted_{row.key_value_heads}_between"] = words.between(row.low, row.high, 3)
    for row in sharers(tables).itertuples():
        found[f"alike_{counts[row.variant]}"] = words.between(row.low, row.high, 3)
    return found


def _key(variant: str, counts: pd.Series) -> str:
    """A name for facts: shared_4, heads_16, heads_by_layer, delight, narrow."""
    if "width" in variant:
        return "delight" if variant.startswith(DELIGHT) else "narrow"
    if variant.startswith("heads by layer"):
        return "heads_by_layer"
    return f"{'shared' if 'shared' in variant else 'heads'}_{counts[variant]}"
