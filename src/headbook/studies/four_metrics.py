"""Notebook 30: the X-raying article's four metrics on known answers, raw and scale-free."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
import seaborn as sns
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from headbook.artefacts.heads import BATCH_TOKENS
from headbook.artefacts.model import TrainedModel, trained
from headbook.corpora.batches import Batch, EncodedPair, in_order
from headbook.heads.four_metrics import ARTICLE, DISSIMILARITY, FREE, ORTHOGONALITY, RAW
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.diversity_scores import (
    CKA,
    DISTANCE,
    diversity_rows,
    gram_rows,
    of_vectors,
    unrelated,
)
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.results import Tables
from headbook.types import Kind

STUDY = "30_four_metrics"
TOKENS, WIDTH = 512, 16
"""Of the planted heads: tokens, and numbers a head."""
SWEEPS = {
    "tokens": (128, 256, 512, 1024, 2048, 4096),
    "width of a head": (4, 8, 16, 32, 64),
    "standard deviation": (0.25, 0.5, 1.0, 2.0, 4.0),
}
SHAPE = {"width": 128, "feed_forward": 512, "heads": 8}
LAYERS, SEEDS = 6, 3
STARTS = {"as the article's": SHAPE["width"] ** 0.5, "as ours": 1.0}
"""Standard deviation of an embedding's entries after the factor √width; the article leaves torch's
own normal numbers and multiplies them."""
VERSIONS = {"trained": None, "untrained": 0}
SHOWN = (*ARTICLE, DISTANCE, CKA)


def compute(config: Config, store: Store | None = None) -> Tables:
    """Known answers, what scale does, the first layer before training, and the profile's models."""
    store = store or Store.default()
    models = [trained(run, store) for run in config.examined_models()]
    sentences = config.preset.pruning.examined
    start = _start(models[0], sentences)
    return {
        "known": pd.DataFrame(list(_known())),
        "scales": pd.DataFrame(list(_scales())),
        "start": start,
        "models": stacked(_of_model(each, sentences) for each in models),
        "claims": pd.DataFrame(list(_claims(start, models[0]))),
    }


def _known() -> Iterator[dict[str, object]]:
    """One row a pair of heads: what every form gives where the answer is known."""
    noise = torch.Generator().manual_seed(0)
    one, other = torch.randn(2, TOKENS, WIDTH, generator=noise)
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=noise)).Q
    half = torch.arange(TOKENS)[:, None] < TOKENS // 2
    pairs = {
        "the same head twice": (one, one),
        "one ten times the other": (one, 10 * one),
        "one turned by a rotation": (one, one @ turn),
        "one with its tokens shuffled": (one, one[torch.randperm(TOKENS, generator=noise)]),
        "unrelated": (one, other),
        "no token in common": (one * half, other * ~half),
    }
    for name, heads in pairs.items():
        found = of_vectors(torch.stack(heads)[None]).grams()
        cosine = torch.nn.functional.cosine_similarity(*heads, dim=-1).mean()
        yield {
            "heads": name,
            "orthogonality, raw": _between(found.orthogonality()),
            "non-orthogonality, raw": _between(found.non_orthogonality()),
            "both, scale-free": _between(found.alignment()),
            "linear CKA": _between(found.cka()),
            "dissimilarity": -float(cosine),
        }


def _between(pairs: Tensor) -> float:
    return float(pairs[0, 0, 1])


def _scales() -> Iterator[dict[str, object]]:
    """Unrelated heads, one thing changed at a time."""
    plain = {"tokens": TOKENS, "width of a head": WIDTH, "standard deviation": 1.0}
    for changed, values in SWEEPS.items():
        for value in values:
            given = plain | {changed: value}
            found = unrelated(*given.values(), seed=1).grams()
            yield {
                "changed": changed, "to": value,
                "orthogonality": _between(found.orthogonality()),
                "non_orthogonality": _between(found.non_orthogonality()),
                "scale_free": _between(found.alignment()),
            }  # fmt: skip


def _start(model: TrainedModel, sentences: int) -> pd.DataFrame:
    """A post-norm decoder before training, with both kinds of embeddings; logarithms of raw forms.

    What is read are the model's target sentences; nothing of its weights is used.
    """
    pairs = model.encode(model.corpus.valid.first(sentences))
    batches = list(in_order(pairs, BATCH_TOKENS))
    tables = [
        gram_rows(_decoder(model, deviation, seed), Kind.DECODER, batches).assign(
            embeddings=name, seed=seed
        )
        for name, deviation in STARTS.items()
        for seed in range(SEEDS)
    ]
    return stacked(tables)


def _decoder(model: TrainedModel, deviation: float, seed: int) -> Transformer:
    """Decoder-only and post-norm, as the article's, with its causal mask set right."""
    torch.manual_seed(derived(seed, "decoder before training"))
    size = len(model.target)
    config = TransformerConfig(
        size, size, 0, LAYERS, dropout=0.0, norm=NormPlacement.POST, **SHAPE
    )  # fmt: skip
    made = Transformer(config)
    # The embedding multiplies by √width itself.
    torch.nn.init.normal_(made.target.tokens.weight, std=deviation / SHAPE["width"] ** 0.5)
    return made.eval()


def _of_model(model: TrainedModel, sentences: int) -> pd.DataFrame:
    pairs: list[EncodedPair] = model.encode(model.corpus.valid.first(sentences))
    batches: Sequence[Batch] = list(in_order(pairs, BATCH_TOKENS))
    return stacked(
        diversity_rows(model.model(update), kind, batches).assign(
            version=version, **model_labels(model)
        )
        for version, update in VERSIONS.items()
        for kind in Kind
    )


def _claims(start: pd.DataFrame, model: TrainedModel) -> Iterator[dict[str, object]]:
    """One row a seed: how far the first layer is from the mean of the others."""
    for seed in range(SEEDS):
        labels = model_labels(model) | {"model": f"decoder before training s{seed}", "seed": seed}
        gap = partial(_gap, start[start["seed"] == seed])
        article, ours = STARTS
        yield claim_row("xray-first-layer-outlier", labels, gap(article, RAW))
        yield claim_row("xray-first-layer-scale-free", labels, gap(article, FREE))
        yield claim_row("xray-first-layer-embedding", labels, gap(ours, RAW))


def _gap(start: pd.DataFrame, embeddings: str, form: str) -> float:
    """First layer minus the mean of the others; of logarithms where the form is raw."""
    chosen = (start["embeddings"] == embeddings) & (start["form"] == form)
    rows = start[chosen & (start["metric"] == ORTHOGONALITY)].set_index("layer")["value"]
    values = np.log(rows) if form == RAW else rows
    return float(values.loc[1] - values.drop(index=1).mean())


def known_table(tables: Tables) -> pd.DataFrame:
    """The known answers."""
    return tables["known"]


def draw_scales(tables: Tables) -> Figure:
    """Raw and scale-free forms of two unrelated heads, as tokens, width and variance change."""
    rows = tables["scales"]
    figure = Figure(figsize=(10.5, 3.8), layout="constrained")
    axes = figure.subplots(1, len(SWEEPS), sharey=True)
    looks = {"orthogonality": ("C0", "o", "orthogonality, raw"),
             "non_orthogonality": ("C1", "s", "non-orthogonality, raw"),
             "scale_free": ("C2", "^", "both, scale-free")}  # fmt: skip
    for axis, name in zip(axes, SWEEPS, strict=True):
        here = rows[rows["changed"] == name]
        for column, (colour, marker, label) in looks.items():
            axis.plot(here["to"], here[column], marker=marker, color=colour, label=label)
        axis.set(xscale="log", yscale="log", xlabel=name)
        axis.set_xticks(here["to"], [f"{value:g}" for value in here["to"]], rotation=45)
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("two unrelated heads")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_start(tables: Tables) -> Figure:
    """Query orthogonality by layer before training: raw as a logarithm, and scale-free."""
    rows = tables["start"]
    rows = rows[rows["metric"] == ORTHOGONALITY]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    axes = figure.subplots(1, 2)
    labels = {RAW: "ln of the raw form", FREE: "scale-free form"}
    for axis, (form, label) in zip(axes, labels.items(), strict=True):
        here = rows[rows["form"] == form]
        for number, (name, of_name) in enumerate(here.groupby("embeddings", sort=False)):
            for seed, of_seed in of_name.groupby("seed"):
                values = np.log(of_seed["value"]) if form == RAW else of_seed["value"]
                axis.plot(of_seed["layer"], values, marker="os"[number % 2], ms=4, lw=1.1,
                          color=f"C{number}", alpha=0.8,
                          label=f"embeddings {name}" if seed == 0 else None)  # fmt: skip
        axis.set(xlabel="layer", ylabel=label)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].set_ylim(0, 1)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_models(tables: Tables) -> Figure:
    """Scale-free measures by layer, trained (full) and untrained (dashed), one colour a kind."""
    rows = tables["models"]
    rows = rows[(rows["form"] == FREE) & rows["metric"].isin(SHOWN)]
    names = list(rows["model"].unique())
    figure = Figure(figsize=(10.2, 1.0 + 2.4 * 2 * len(names)), layout="constrained")
    parts = np.atleast_1d(figure.subfigures(len(names), 1))
    colours = dict(zip(map(str, Kind), ("#1f5a92", "#d9822b", "#3c8c5a"), strict=True))
    for part, name in zip(parts, names, strict=True):
        part.suptitle(name, fontweight="bold")
        for axis, metric in zip(part.subplots(2, 3).flat, SHOWN, strict=True):
            here = rows[(rows["model"] == name) & (rows["metric"] == metric)]
            sns.lineplot(here, x="layer", y="value", hue="kind", style="version", markers=True,
                         palette=colours, ax=axis, legend=axis is part.axes[0])  # fmt: skip
            axis.set(title=metric, ylabel="")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.spines[["top", "right"]].set_visible(False)
        first = part.axes[0]
        handles, labels = first.get_legend_handles_labels()
        first.get_legend().remove()
    kept = [(handle, label) for handle, label in zip(handles, labels, strict=True)
            if label not in ("kind", "version")]  # fmt: skip
    figure.legend(*zip(*kept, strict=True), loc="outside lower center", ncols=5, frameon=False)
    return figure


def models_table(tables: Tables) -> pd.DataFrame:
    """Every measure, mean over the layers, of the trained models and of the untrained."""
    rows = tables["models"].assign(measure=lambda found: found["metric"] + ", " + found["form"])
    wide = rows.pivot_table(
        index=["model", "measure"], columns=["kind", "version"], values="value", sort=False
    )
    wide.columns = [f"{kind}, {version}" for kind, version in wide.columns]
    return wide.reset_index()


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    claims = tables["claims"].groupby("claim")["value"]
    gaps = {claim: (values.min(), values.max()) for claim, values in claims}
    models = tables["models"].query("version == 'trained'")
    cosine = models[models["metric"] == DISSIMILARITY].groupby("form")["value"]
    ends = {form: (values.min(), values.max()) for form, values in cosine}
    return (
        f"Before training the first layer's raw orthogonality is "
        f"{_range(gaps['xray-first-layer-outlier'], '.2f')} above the others in logarithms, where "
        f"the embeddings are the article's, and {_range(_first_step(tables), '.2f')} above the "
        f"second layer, where heads before training have not yet drawn together; with embeddings "
        f"of unit variance it is "
        f"{_range(gaps['xray-first-layer-embedding'], '+.2f')}, and in the scale-free form "
        f"{_range(gaps['xray-first-layer-scale-free'], '+.3f')}. In the trained models output "
        f"dissimilarity is {_range(ends[RAW], '+.2f')} on slices behind the projection "
        f"and {_range(ends[FREE], '+.2f')} on the heads' own outputs."
    )


def _first_step(tables: Tables) -> tuple[float, float]:
    """How far the raw logarithm falls from the first layer to the second, over the seeds."""
    start = tables["start"]
    chosen = (start["metric"] == ORTHOGONALITY) & (start["form"] == RAW)
    rows = start[chosen & (start["embeddings"] == next(iter(STARTS)))]
    values = np.log(rows.pivot(index="seed", columns="layer", values="value"))
    steps = values[1] - values[2]
    return float(steps.min()), float(steps.max())


def _range(ends: tuple[float, float], form: str) -> str:
    return " to ".join(dict.fromkeys(f"{end:{form}}" for end in ends))
