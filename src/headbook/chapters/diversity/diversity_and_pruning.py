"""Page 35: whether the heads that pruning takes are those that are like the others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from headbook.artefacts.heads import BATCH_TOKENS
from headbook.artefacts.model import ModelRun, TrainedModel, heads_of, trained
from headbook.artefacts.pruned import EVERYTHING, keeping
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._head_diversity import (
    ALL,
    BETWEEN,
    CONTEXTS,
    DIVERSITY,
    INSIDE,
    KINDS,
    OVER,
    QUERIES,
    Grid,
    Replicates,
    agreement,
    diversities,
    drawn_again,
    grid_of,
    inside_blocks,
    slopes,
)
from headbook.chapters.importance_scores import ABLATION, IMPORTANCE, RELEVANCE, importance_scores
from headbook.chapters.sweeps import swept
from headbook.chapters.tables import claim_row, model_labels, of_ours, of_small, stacked
from headbook.chapters.trained import Measured, at_profile
from headbook.claims.ledger import load as ledger
from headbook.corpora.batches import in_order
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind

NUMBER = 35
TITLE = "Does pruning take the heads that are alike?"
WORK = "asad2024"
KEYS = ("model", "seed")

GRADIENT = IMPORTANCE[0]
IMPORTANCES = (GRADIENT, ABLATION, RELEVANCE[Variant.CODE_2019])
SURVIVAL = "survival"
"""The share of a sweep's points that keep a head."""
TRAINED, UNTRAINED = "trained", "untrained"
VERSIONS = {TRAINED: None, UNTRAINED: 0}
"""The update at which a model is measured."""


Parameters = Measured


@dataclass(frozen=True)
class Subject:
    """One model: how unlike each head is, how long pruning keeps it, how much it matters."""

    labels: dict[str, object]
    diversity: Mapping[str, Mapping[str, Grid]]  # by version of the model and measure
    survival: Grid
    importance: Mapping[str, Grid]  # by measure; none where heads are not scored singly

    @cached_property
    def scores(self) -> dict[str, Grid]:
        """Every measure of the heads of the trained model."""
        return {**self.diversity[TRAINED], SURVIVAL: self.survival, **self.importance}

    def inside(self, first: str, second: str) -> Replicates:
        """Rank correlation of two measures over the heads of a block, mean over all blocks."""
        drawn = (drawn_again(self.scores[name]) for name in (first, second))
        return inside_blocks(*drawn)[ALL]


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else diversity, survival and importance of every head, claims."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile; models and sweeps that the store lacks are trained."""
    subjects = [_subject(run, config, store) for run in config.pruned_models()]
    agreements = [pd.DataFrame(_agreement(each)) for each in subjects]
    found = zip(subjects, agreements, strict=True)
    return {
        "heads": stacked(map(_heads, subjects)),
        "layers": pd.DataFrame([row for each in subjects for row in _layers(each)]),
        "slopes": pd.DataFrame([row for each in subjects for row in _slopes(each)]),
        "agreement": stacked(agreements),
        "claims": pd.DataFrame([row for each, rows in found for row in _claims(each, rows)]),
    }


def _subject(run: ModelRun, config: Config, store: Store) -> Subject:
    model = trained(run, store)
    closed = [point.closed for point in swept(model, EVERYTHING, config, store)]
    kept = keeping(closed, KINDS, model.run.size)
    examined = run in config.examined_models()
    return Subject(
        model_labels(model),
        _diversity(model, config.preset.pruning.examined),
        kept.mean(axis=0),
        _importance(model, config, store) if examined else {},
    )


def _diversity(model: TrainedModel, sentences: int) -> dict[str, dict[str, Grid]]:
    """On sentences of the validation set, as the importance of heads."""
    batches = list(in_order(model.encode(model.corpus.valid.first(sentences)), BATCH_TOKENS))
    return {
        version: diversities(model.model(update), batches) for version, update in VERSIONS.items()
    }


def _importance(model: TrainedModel, config: Config, store: Store) -> dict[str, Grid]:
    found, heads = importance_scores(model, config, store), heads_of(model)
    return {name: grid_of(heads, found[name], model.run.size) for name in IMPORTANCES}


def _heads(each: Subject) -> pd.DataFrame:
    """One row per head and a column per measure; of the trained model."""
    _, layers, heads = each.survival.shape
    index = pd.MultiIndex.from_product(
        [map(str, KINDS), range(1, layers + 1), range(1, heads + 1)],
        names=["kind", "layer", "head"],
    )
    columns = {name: grid.ravel() for name, grid in each.scores.items()}
    return pd.DataFrame(columns, index).reset_index().assign(**each.labels)


def _layers(each: Subject) -> Iterator[dict[str, object]]:
    """One row per block, version and measure: the mean over its heads, its interval over them."""
    for version, measure, grid in _versions(each):
        means = drawn_again(grid).mean(-1)
        for at, kind in enumerate(KINDS):
            for layer in range(means.shape[2]):
                value, low, high = interval(means[:, at, layer])
                yield {**each.labels, "version": version, "measure": measure, "kind": str(kind),
                       "layer": layer + 1, "value": value, "low": low, "high": high}  # fmt: skip


def _versions(each: Subject) -> Iterator[tuple[str, str, Grid]]:
    """Quantities by layer: diversity of both versions, and survival."""
    for version, measures in each.diversity.items():
        for measure, grid in measures.items():
            yield version, measure, grid
    yield TRAINED, SURVIVAL, each.survival


def _slopes(each: Subject) -> Iterator[dict[str, object]]:
    """One row per kind, version and measure: the slope of layer means over layers."""
    for version, measure, grid in _versions(each):
        for kind, replicates in slopes(drawn_again(grid)).items():
            value, low, high = interval(replicates)
            yield {**each.labels, "version": version, "measure": measure, "kind": kind,
                   "value": value, "low": low, "high": high}  # fmt: skip


def _agreement(each: Subject) -> Iterator[dict[str, object]]:
    """One row per pair of measures, scope and kind: their rank correlation."""
    pairs = [(name, SURVIVAL) for name in (*DIVERSITY, *each.importance)]
    pairs += [(name, other) for other in each.importance for name in DIVERSITY]
    for first, second in pairs:
        for row in agreement(each.scores[first], each.scores[second]):
            yield {**each.labels, "first": first, "second": second, **row}


CLAIMED = {
    "xray-similar-layers-pruned-first": (SURVIVAL, BETWEEN),
    "xray-diversity-survives": (SURVIVAL, INSIDE),
    "xray-diversity-important": (GRADIENT, INSIDE),
}
"""With what output dissimilarity is said to go, and over what."""


def _claims(each: Subject, agreements: pd.DataFrame) -> Iterator[dict[str, object]]:
    before, learned = (each.diversity[version][DISSIMILARITY] for version in (UNTRAINED, TRAINED))
    change = interval(_change(learned, Kind.DECODER))
    start = float(_change(before, Kind.DECODER)[0])
    yield claim_row("xray-later-heads-similar", each.labels, *change, baseline=start)
    change = interval(_change(each.survival, ALL))
    yield claim_row("xray-later-heads-pruned-first", each.labels, *change)
    rows = agreements.query("first == @DISSIMILARITY and kind == @ALL")
    rows = rows.set_index(["second", "scope"])[["value", "low", "high", "null"]]
    for claim, where in CLAIMED.items():
        if where in rows.index:
            yield claim_row(claim, each.labels, *rows.loc[where])
    if each.importance:
        unlike = each.inside(DISSIMILARITY, SURVIVAL)
        gap = interval(each.inside(GRADIENT, SURVIVAL) - unlike)
        claim = "xray-importance-tells-more"
        yield claim_row(claim, each.labels, *gap, baseline=float(unlike[0]))


def _change(grid: Grid, kind: str) -> Replicates:
    return slopes(drawn_again(grid))[kind]


TITLES = {
    QUERIES: "1 − query alignment",
    CONTEXTS: "1 − context alignment",
    GRADIENT: "importance by gradient",
    ABLATION: "loss without the head",
    RELEVANCE[Variant.CODE_2019]: "relevance (LRP)",
}
"""Measures by their names in figures, where these differ."""


def with_survival(tables: Tables) -> pd.DataFrame:
    """Rank correlation of every measure with survival: mean, least and largest over the models.

    One row per measure and scope, over the heads of a block or over the layers of a kind.
    """
    rows = tables["agreement"].query("kind == @ALL and second == @SURVIVAL")
    rows = rows[rows["scope"].isin([INSIDE, BETWEEN])]
    groups = rows.groupby(["first", "scope"], sort=False)["value"]
    found = groups.agg(value="mean", low="min", high="max").reset_index()
    return found.assign(measure=found["first"].replace(TITLES))


def by_layer(tables: Tables, measure: str) -> pd.DataFrame:
    """A measure of the trained models by layer and kind: mean, least and largest over models."""
    rows = tables["layers"].query("version == @TRAINED and measure == @measure")
    groups = rows.groupby(["kind", "layer"], sort=False)["value"]
    return groups.agg(mean="mean", low="min", high="max").reset_index().rename(
        columns={"mean": "value"}
    )  # fmt: skip


def changes(tables: Tables) -> pd.DataFrame:
    """Change of every measure per layer, lowest to highest over models; a column per kind."""
    groups = tables["slopes"].groupby(["measure", "version", "kind"], sort=False)["value"]
    return groups.agg(lambda values: _range(values, 3)).unstack("kind", sort=False).reset_index()


def agreements(tables: Tables) -> pd.DataFrame:
    """Rank correlations of two measures, lowest to highest over models; a column per scope."""
    rows = tables["agreement"].query("kind == @ALL").replace({"first": TITLES, "second": TITLES})
    groups = rows.groupby(["first", "second", "scope"], sort=False)["value"]
    shown = groups.agg(lambda values: _range(values, 2)).unstack("scope", sort=False)
    return shown[[INSIDE, OVER, BETWEEN]].reset_index().rename(
        columns={"first": "measure", "second": "with"}
    )  # fmt: skip


def _range(values: pd.Series, digits: int) -> str:
    if values.isna().all():
        return ""
    low, high = (words.signed(end, digits) for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


ASKED = {
    "dissimilarity": ("xray-later-heads-similar", 3),
    "survival": ("xray-later-heads-pruned-first", 3),
    "between": ("xray-similar-layers-pruned-first", 2),
    "inside": ("xray-diversity-survives", 2),
}
"""Claims by the names of their numbers in the prose, and digits."""


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: ranges over small models, and the one that converged."""
    found = _of_small(of_small(tables))
    ours = of_ours(tables)
    own = ours["claims"].set_index("claim")[["value", "low", "high"]]
    for name, (claim, digits) in ASKED.items():
        if claim in own.index:
            found[f"ours_{name}"] = words.difference(*own.loc[claim], digits)
    for row in _inside(ours).query("first == @GRADIENT").itertuples():
        found["ours_gradient"] = words.difference(row.value, row.low, row.high)
    return found


def _inside(tables: Tables) -> pd.DataFrame:
    """Rank correlations with survival over the heads of a block."""
    return tables["agreement"].query("kind == @ALL and second == @SURVIVAL and scope == @INSIDE")


def _of_small(tables: Tables) -> Facts:
    claims = tables["claims"].groupby("claim")["value"]
    inside = tables["claims"].query("claim == 'xray-diversity-survives'")
    found: Facts = {name: _range(claims.get_group(claim), digits)
                    for name, (claim, digits) in ASKED.items()}  # fmt: skip
    rows = _inside(tables)
    unlike, gradient = (rows[rows["first"] == name] for name in (DISSIMILARITY, GRADIENT))
    said = ledger().claim("xray-later-heads-similar").paper[0].values[0]
    return found | {
        "inside_negative": str(int((inside["high"] < 0).sum())),
        "gradient": _range(gradient["value"], 2),
        "null": _range(pd.concat([unlike["null_low"], unlike["null_high"]]), 2),
        "dissimilarity_paper": words.signed(said, 3),
        "models": str(unlike["model"].nunique()),
        "scored": str(gradient["model"].nunique()),
    }
