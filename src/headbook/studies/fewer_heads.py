"""Notebook 38: fewer key-value heads, more and fewer heads, unequal ones, and DeLighT's one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from headbook.artefacts.language import (
    DelightRun,
    LanguageModel,
    LanguageRun,
    SharingRun,
    language_model,
)
from headbook.artefacts.watching import PROBE
from headbook.heads.four_metrics import DISSIMILARITY, FREE
from headbook.models.grouped import pooled
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.diversity_watched import labels
from headbook.studies.measurements import claim_row, stacked
from headbook.studies.over_seeds import mean_table, of_each_seed, said
from headbook.studies.results import Tables
from headbook.studies.training_claims import at_the_end, last_looks
from headbook.studies.watched_figures import draw_variants

__all__ = [
    "STUDY", "compute", "converted_table", "draw_groups", "draw_variants", "light_table",
    "quality_table", "read",
]  # fmt: skip

STUDY = "38_fewer_heads"
SEGMENTS = 64
"""Of validation text, on which a converted model is measured."""
OURS, DELIGHT = "transformer", "DeLighT"
SAME, OTHER = "of one group", "of two groups"


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


def compute(config: Config, store: Store | None = None) -> Tables:
    """How good each model is, how diverse its heads are, and what conversion costs, by seed."""
    kept = store or Store.default()
    return of_each_seed(config.of_varied_seeds(), lambda each: _of_seed(each, kept))


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
    """One row a layer and metric at the end of training."""
    named = {"variant": each.name, "heads": each.run.size.heads, "key_value_heads": each.shared}
    return at_the_end(each.model).assign(**named)


def _groups(each: Variant) -> Iterator[dict[str, object]]:
    """One row a layer: dissimilarity of heads that share keys and values, and of others."""
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
    """One row a number of key-value heads: the whole model with its own averaged, untrained."""
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


def draw_groups(tables: Tables) -> Figure:
    """Dissimilarity of heads that share keys and values beside that of others, by layer."""
    rows = tables["groups"]
    names = list(rows["variant"].unique())
    figure = Figure(figsize=(4.4 * max(len(names), 1), 3.8), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for axis, name in zip(axes, names, strict=True):
        here = rows[rows["variant"] == name].groupby("layer", as_index=False)[[SAME, OTHER]].mean()
        for column, colour, marker in ((SAME, "#d9822b", "o"), (OTHER, "#1f5a92", "s")):
            axis.plot(here["layer"], here[column], marker=marker, color=colour, label=column)
        axis.set(title=name, xlabel="layer")
        _plain(axis)
    axes[0].set_ylabel("output dissimilarity, scale-free")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
                  frameon=False)  # fmt: skip
    return figure


def _plain(axis: Axes) -> None:
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.spines[["top", "right"]].set_visible(False)


def quality_table(tables: Tables) -> pd.DataFrame:
    """Perplexity, parameters and what decoding keeps, of every model; its name tells its heads."""
    rows = tables["quality"].drop(columns=["heads", "key_value_heads"])
    return mean_table(rows, ["variant"], "test_nats")


def light_table(tables: Tables) -> pd.DataFrame:
    """DeLighT's blocks beside ours at the same width, and at as many weights."""
    return mean_table(tables["light"], ["blocks", "width"], "test_nats")


def converted_table(tables: Tables) -> pd.DataFrame:
    """What averaging the key-value heads of a trained model costs, before any further training."""
    return mean_table(tables["converted"], ["key_value_heads"], "converted_nats")


def _of_one_pair(quality: pd.DataFrame) -> str:
    """What one key-value head for all costs against the next number of them, seed by seed."""
    shared = quality[quality["key_value_heads"] < quality["heads"]]
    nats = shared.pivot(index="seed", columns="key_value_heads", values="test_nats")
    if 1 not in nats or nats.shape[1] < 2:
        return ""
    several = nats.columns[1]
    cost = said(nats[1] - nats[several], "+.3f")
    return f"One pair for all heads costs, against {several} of them, {cost}. "


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    quality, groups = quality_table(tables), tables["groups"]
    best, worst = (quality.loc[index] for index in (quality["test_nats"].idxmin(),
                                                    quality["test_nats"].idxmax()))  # fmt: skip
    converted = converted_table(tables)
    costs = converted["converted_nats"] - converted["whole_nats"]
    whole, delight, thinner = (row for _, row in light_table(tables).iterrows())
    nats = tables["light"].pivot(index="seed", columns=["blocks", "width"], values="test_nats")
    behind = nats[DELIGHT, delight["width"]] - nats[OURS, whole["width"]]
    alone = _of_one_pair(tables["quality"])
    return (
        f"Perplexity a piece goes from {best['test_perplexity']:.1f} ({best['variant']}) to "
        f"{worst['test_perplexity']:.1f} ({worst['variant']}). {alone}Heads that share keys and "
        f"values have an output dissimilarity of {groups[SAME].mean():+.3f}, others of the same "
        f"blocks {groups[OTHER].mean():+.3f}, mean over layers and models. Averaging the "
        f"key-value heads of the trained model costs {costs.min():.2f} to {costs.max():.2f} nats "
        f"a token before any further training. DeLighT's blocks have "
        f"{delight['of_blocks_million']:.2f} million "
        f"weights and the model a test loss of {delight['test_nats']:.3f} nats; ours have "
        f"{whole['of_blocks_million']:.2f} and {whole['test_nats']:.3f} at the same width, "
        f"{thinner['of_blocks_million']:.2f} and {thinner['test_nats']:.3f} at a smaller one. "
        f"At the same width DeLighT's loss is {said(behind, '+.3f')} from ours."
    )
