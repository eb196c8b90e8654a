"""Page 30: the X-raying article's four metrics on known answers, before training, released."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headbook.artefacts.heads import BATCH_TOKENS
from headbook.artefacts.model import TrainedModel, trained
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._scores import (
    diversity_rows,
    gram_rows,
    of_vectors,
    unrelated,
)
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.chapters.words import TITLES
from headbook.claims.ledger import load as ledger
from headbook.corpora.batches import in_order
from headbook.heads.four_metrics import (
    DISSIMILARITY,
    FREE,
    NON_ORTHOGONALITY,
    ORTHOGONALITY,
    RAW,
)
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.diversity import diversity
from headbook.looking.load import load
from headbook.looking.text import text as sentences_of
from headbook.models.transformer import NormPlacement, Transformer, TransformerConfig
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.types import Kind

NUMBER = 30
TITLE = "Do the four diversity metrics measure diversity?"
WORK = "asad2024"
KEYS = ("model", "text", "sentences")

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


@dataclass(frozen=True)
class Parameters(Trained):
    """Released models, their text and its first sentences; the profile of models trained here."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    text: str = "ewt-sample"
    first: int = 25


def compute(parameters: Parameters, store: Store) -> Tables:
    """At `published` the released models, else known answers and models trained here."""
    found = at_profile(parameters, store, trained_here, released=("models", "text", "first"))
    return found or {"released": stacked(_released(parameters))}


def trained_here(config: Config, store: Store) -> Tables:
    """Known answers, the effect of scale, decoders before training, the profile's models."""
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


def _released(parameters: Parameters) -> Iterator[pd.DataFrame]:
    """The four metrics of the first kind of attention of each model, and of a null network."""
    sentences = sentences_of(parameters.text, first=parameters.first).sentences
    for name in parameters.models:
        model = load(name)
        batches = model.batches(sentences)
        kind = next(found for found, _, _ in model.network.attentions())
        labels = {"model": name, "text": parameters.text, "sentences": len(sentences)}
        found = diversity(model.network, [kind], batches)
        with without_knowledge(model.network, Null.PERMUTED, seed=0):
            null = diversity(model.network, [kind], batches)
        for version, table in ((RELEASED, found), (PERMUTED, null)):
            yield table.assign(version=version, **labels)


def _known() -> Iterator[dict[str, object]]:
    """One row per pair of heads: the value of every form where the answer is known."""
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

    It reads the model's target sentences; the model's weights are not used.
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
    pairs = model.encode(model.corpus.valid.first(sentences))
    batches = list(in_order(pairs, BATCH_TOKENS))
    return stacked(
        diversity_rows(model.model(update), kind, batches).assign(
            version=version, **model_labels(model)
        )
        for version, update in VERSIONS.items()
        for kind in Kind
    )


def _claims(start: pd.DataFrame, model: TrainedModel) -> Iterator[dict[str, object]]:
    """One row per seed: how far the first layer is from the mean of the others."""
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


ARTICLE_FIRST = (17.37, 12.30, 12.62, 12.22, 12.33, 12.48)
"""Logarithm of raw query orthogonality by layer at the article's first batch, 8 heads and dropout
0.1; recomputed from the table it released."""
ARTICLE_LAST = (0.0427, 0.0373, 0.0372, -0.0109, -0.0126, -0.0139)
"""Output dissimilarity by layer over its last twenty batches, as before."""
ARTICLE_CONTEXTS = (4.26, 4.82)
"""Gap of the logarithm of context non-orthogonality, lowest and highest of its eight settings."""
SHOWN = ("before training, article's embeddings", "before training, unit variance")
"""The two kinds of embeddings in figures."""
RELEASED, PERMUTED = "released", "weights permuted"


def paper() -> pd.DataFrame:
    """The article's first layer before training, as `before_training` has ours: layer, value."""
    values = np.array(ARTICLE_FIRST)
    return pd.DataFrame({"layer": range(1, 7), "value": values - values[1:].mean()})


def before_training(tables: Tables) -> pd.DataFrame:
    """Raw query orthogonality by layer, as a logarithm over the mean of the layers above the first.

    Columns: model, layer, value, low, high; decoders before training (mean and range of their
    seeds) and, where they were measured, released models.
    """
    start = _chosen(tables["start"], ORTHOGONALITY, RAW)
    start = start.assign(value=np.log(start["value"]))
    start["value"] -= start.groupby(["embeddings", "seed"])["value"].transform(_above)
    rows = start.groupby(["embeddings", "layer"], sort=False)["value"].agg(["mean", "min", "max"])
    rows = rows.set_axis(["value", "low", "high"], axis=1).reset_index()
    decoders = rows.assign(model=rows.pop("embeddings").map(dict(zip(STARTS, SHOWN, strict=True))))
    if "released" not in tables:
        return decoders
    found = _whole(tables["released"])
    values = np.log(found[f"{ORTHOGONALITY}, {RAW}"])
    found = found.assign(value=values - values.groupby(found["model"]).transform(_above))
    return _between_released(found, decoders)


def scaled(tables: Tables) -> pd.DataFrame:
    """Metrics of two unrelated heads, one row per property and value, for readers."""
    rows = tables["scales"].round(2)
    return rows.assign(to=rows["to"].map("{:g}".format)).rename(columns={
        "orthogonality": "orthogonality, raw", "non_orthogonality": "non-orthogonality, raw",
        "scale_free": "both, scale-free",
    })  # fmt: skip


def scale_free(tables: Tables) -> pd.DataFrame:
    """Scale-free query orthogonality by layer: model, layer, value. Of released models, of null
    networks (mean over models) and of decoders before training (mean over seeds)."""
    start = _chosen(tables["start"], ORTHOGONALITY, FREE)
    start = start[start["embeddings"] == next(iter(STARTS))]
    found = tables["released"].rename(columns={f"{ORTHOGONALITY}, {FREE}": "value"})
    parts = {PERMUTED: found[found["version"] != RELEASED],
             "decoder before training": start}  # fmt: skip
    nulls = [rows.groupby("layer")["value"].mean().reset_index().assign(model=name)
             for name, rows in parts.items()]  # fmt: skip
    return _between_released(_whole(found), stacked(nulls))


def _between_released(released: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """The first released model, the others, further released models: colours stay apart so."""
    rows = released[["model", "layer", "value"]].replace({"model": TITLES})
    first = rows["model"] == rows["model"].iloc[0]
    return stacked([rows[first], others, rows[~first]])


def of_models(tables: Tables) -> pd.DataFrame:
    """Every measure, mean over layers and models trained here, by kind, trained and untrained."""
    rows = tables["models"].assign(measure=lambda found: found["metric"] + ", " + found["form"])
    wide = rows.pivot_table(
        index="measure", columns=["kind", "version"], values="value", sort=False
    )
    wide.columns = [f"{kind}, {version}" for kind, version in wide.columns]
    return wide.map("{:.3g}".format).reset_index()


def known(tables: Tables) -> pd.DataFrame:
    """The known answers, three digits each."""
    numbers = tables["known"].set_index("heads")
    return numbers.map(lambda value: f"{value:,.0f}" if abs(value) > 2 else f"{value:.2f}").replace(
        "-0.00", "0.00"
    ).reset_index()  # fmt: skip


def facts(tables: Tables) -> Facts:
    """Numbers of the prose; `times` is the first layer over the geometric mean of the others."""
    outlier = ledger().claim("xray-first-layer-outlier").paper[0].values
    claims = tables["claims"].groupby("claim")["value"]
    last = [words.signed(each) for each in (min(ARTICLE_LAST), max(ARTICLE_LAST))]
    found: Facts = {
        "article_times": _times(*outlier),
        "article_contexts": _times(*ARTICLE_CONTEXTS),
        "article_slices": " to ".join(last),
        "start_times": _times(*_ends(claims, "xray-first-layer-outlier")),
        "start_contexts": _times(*_context_gaps(tables["start"])),
        "unit_times": _times(*_ends(claims, "xray-first-layer-embedding")),
        "start_free": words.signed(claims.mean()["xray-first-layer-scale-free"]),
        "seeds": str(tables["start"]["seed"].nunique()),
    }
    return found | _trained_facts(tables["models"]) | _released_facts(tables)


def _trained_facts(models: pd.DataFrame) -> Facts:
    rows = models[(models["version"] == "trained") & (models["kind"] == str(Kind.ENCODER))]
    gaps = {}
    for metric, form in ((ORTHOGONALITY, RAW), (ORTHOGONALITY, FREE), (NON_ORTHOGONALITY, RAW)):
        own = _chosen(rows, metric, form).pivot(index="layer", columns="model", values="value")
        own = np.log(own) if form == RAW else own
        gaps[metric, form] = own.iloc[0] - own.iloc[1:].mean()
    slices, outputs = (_chosen(rows, DISSIMILARITY, form)["value"] for form in (RAW, FREE))
    return {
        "trained_times": _times(*_ends_of(gaps[ORTHOGONALITY, RAW])),
        "trained_contexts": _times(*_ends_of(gaps[NON_ORTHOGONALITY, RAW])),
        "trained_free": _spread(gaps[ORTHOGONALITY, FREE]),
        "trained_slices": _spread(slices),
        "trained_outputs": _spread(outputs),
        "trained_models": str(rows["model"].nunique()),
    }


def _released_facts(tables: Tables) -> Facts:
    found: Facts = {}
    if "released" not in tables:
        return found
    for name, rows in _whole(tables["released"]).groupby("model", sort=False):
        key = name.replace("-", "_")
        columns = {
            "times": f"{ORTHOGONALITY}, {RAW}", "contexts": f"{NON_ORTHOGONALITY}, {RAW}",
        }  # fmt: skip
        for fact, column in columns.items():
            values = np.log(rows[column])
            found[f"{key}_{fact}"] = _times(float(values.iloc[0] - _above(values)))
        free = rows[f"{ORTHOGONALITY}, {FREE}"]
        found[f"{key}_free"] = words.signed(float(free.iloc[0] - _above(free)))
        found[f"{key}_slices"] = _spread(rows[f"{DISSIMILARITY}, {RAW}"])
        found[f"{key}_outputs"] = _spread(rows[f"{DISSIMILARITY}, {FREE}"])
        found["sentences"] = words.count(int(rows["sentences"].iloc[0]))
    return found


def _chosen(rows: pd.DataFrame, metric: str, form: str) -> pd.DataFrame:
    return rows[(rows["metric"] == metric) & (rows["form"] == form)]


def _whole(released: pd.DataFrame) -> pd.DataFrame:
    """Without the null networks."""
    return released[released["version"] == RELEASED]


def _above(by_layer: pd.Series) -> float:
    """Mean over the layers above the first; the rows are in the order of the layers."""
    return float(by_layer.iloc[1:].mean())


def _context_gaps(start: pd.DataFrame) -> tuple[float, float]:
    """The first layer's gap in raw context non-orthogonality with the article's embeddings."""
    rows = _chosen(start, NON_ORTHOGONALITY, RAW)
    rows = rows[rows["embeddings"] == next(iter(STARTS))]
    values = np.log(rows.pivot(index="layer", columns="seed", values="value"))
    return _ends_of(values.iloc[0] - values.iloc[1:].mean())


def _ends(claims: pd.api.typing.SeriesGroupBy, claim: str) -> tuple[float, float]:
    return float(claims.min()[claim]), float(claims.max()[claim])


def _ends_of(values: pd.Series) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _times(*gaps: float) -> str:
    """Gaps of logarithms as factors: `110 to 176`, `0.7`."""
    factors = [np.exp(gap) for gap in gaps]
    texts = [f"{each:.0f}" if each >= 10 else f"{each:.1f}" for each in factors]
    return " to ".join(dict.fromkeys(texts))


def _spread(values: pd.Series) -> str:
    """Smallest to largest, `−0.01 to +0.03`; a dash where nothing was recorded."""
    if values.isna().all():
        return "–"
    return " to ".join(dict.fromkeys(words.signed(each) for each in _ends_of(values)))
