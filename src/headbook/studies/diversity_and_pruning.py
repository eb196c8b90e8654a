"""Notebook 35: whether the heads that pruning takes are those that are like the others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from headbook.artefacts.heads import BATCH_TOKENS
from headbook.artefacts.model import ModelRun, TrainedModel, trained
from headbook.artefacts.pruned import EVERYTHING
from headbook.corpora.batches import in_order
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.studies.config import Config
from headbook.studies.diversity_figures import (
    SURVIVAL,
    TRAINED,
    UNTRAINED,
    draw_agreement,
    draw_layers,
)
from headbook.studies.head_diversity import (
    ALL,
    BETWEEN,
    DIVERSITY,
    INSIDE,
    KINDS,
    OVER,
    Grid,
    Replicates,
    agreement,
    diversities,
    drawn_again,
    grid_of,
    inside_blocks,
    slopes,
)
from headbook.studies.importance_scores import ABLATION, IMPORTANCE, RELEVANCE, importance_scores
from headbook.studies.kept_heads import keeping
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.pruned_figures import span
from headbook.studies.pruning_orders import heads_of
from headbook.studies.results import Tables
from headbook.studies.sweeps import swept
from headbook.types import Kind

__all__ = ["draw_agreement", "draw_layers"]

STUDY = "35_diversity_and_pruning"
GRADIENT = IMPORTANCE[0]
IMPORTANCES = (GRADIENT, ABLATION, RELEVANCE[Variant.CODE_2019])
VERSIONS = {TRAINED: None, UNTRAINED: 0}
"""The update at which a model is measured."""


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
        """How two measures put the heads of a block in order, mean over all blocks."""
        drawn = (drawn_again(self.scores[name]) for name in (first, second))
        return inside_blocks(*drawn)[ALL]


def compute(config: Config, store: Store | None = None) -> Tables:
    """Diversity, survival and importance of every head, by layer, and whether they agree."""
    store = store or Store.default()
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
    """One row a head and a column a measure; of the trained model."""
    _, layers, heads = each.survival.shape
    index = pd.MultiIndex.from_product(
        [map(str, KINDS), range(1, layers + 1), range(1, heads + 1)],
        names=["kind", "layer", "head"],
    )
    columns = {name: grid.ravel() for name, grid in each.scores.items()}
    return pd.DataFrame(columns, index).reset_index().assign(**each.labels)


def _layers(each: Subject) -> Iterator[dict[str, object]]:
    """One row a block, version and measure: the mean over its heads, its interval over them."""
    for version, measure, grid in _versions(each):
        means = drawn_again(grid).mean(-1)
        for at, kind in enumerate(KINDS):
            for layer in range(means.shape[2]):
                value, low, high = interval(means[:, at, layer])
                yield {**each.labels, "version": version, "measure": measure, "kind": str(kind),
                       "layer": layer + 1, "value": value, "low": low, "high": high}  # fmt: skip


def _versions(each: Subject) -> Iterator[tuple[str, str, Grid]]:
    """What has a course over the layers: diversity of both versions, and survival."""
    for version, measures in each.diversity.items():
        for measure, grid in measures.items():
            yield version, measure, grid
    yield TRAINED, SURVIVAL, each.survival


def _slopes(each: Subject) -> Iterator[dict[str, object]]:
    """One row a kind, version and measure: by how much the mean of a layer changes, a layer."""
    for version, measure, grid in _versions(each):
        for kind, replicates in slopes(drawn_again(grid)).items():
            value, low, high = interval(replicates)
            yield {**each.labels, "version": version, "measure": measure, "kind": kind,
                   "value": value, "low": low, "high": high}  # fmt: skip


def _agreement(each: Subject) -> Iterator[dict[str, object]]:
    """One row a pair of measures, scope and kind: all with survival, diversity with importance."""
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


def agreement_table(tables: Tables) -> pd.DataFrame:
    """Every pair of measures by scope, mean over the kinds: smallest to largest over the models."""
    rows = tables["agreement"].query("kind == @ALL")
    found = []
    for (first, second), of_pair in rows.groupby(["first", "second"], sort=False):
        scopes = {scope: span(of_scope["value"], "+.2f")
                  for scope, of_scope in of_pair.groupby("scope", sort=False)}  # fmt: skip
        shuffled = of_pair[of_pair["scope"] == INSIDE]
        ends = pd.concat([shuffled["null_low"], shuffled["null_high"]])
        found.append({"measure": first, "with": second, "models": of_pair["model"].nunique(),
                      **scopes, f"{INSIDE}, shuffled": span(ends, "+.2f")})  # fmt: skip
    return pd.DataFrame(found)


def slopes_table(tables: Tables) -> pd.DataFrame:
    """By how much each measure changes a layer: smallest to largest over the models."""
    rows = tables["slopes"]
    found = rows.groupby(["measure", "version", "kind"], sort=False)["value"]
    return found.agg(lambda values: span(values, "+.3f")).unstack("kind", sort=False).reset_index()


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    rows = tables["agreement"].query("kind == @ALL")
    inside = rows.query("scope == @INSIDE and second == @SURVIVAL")
    unlike = inside[inside["first"] == DISSIMILARITY]
    shuffled = pd.concat([unlike["null_low"], unlike["null_high"]])
    return (
        f"By how much output dissimilarity changes a layer: {_course(tables, DISSIMILARITY)}; "
        f"before training {_course(tables, DISSIMILARITY, UNTRAINED)}. The share of the sweep's "
        f"points that keep a head changes by: {_course(tables, SURVIVAL)}. Over the layers of a "
        f"kind the two correlate by {_found(rows, DISSIMILARITY, SURVIVAL, BETWEEN)}, over all "
        f"heads of a kind by {_found(rows, DISSIMILARITY, SURVIVAL, OVER)}, and over the heads of "
        f"one block by {span(unlike['value'], '+.2f')}, where shuffled heads give "
        f"{span(shuffled, '+.2f')}. {_best(inside)} Gradient importance correlates with survival "
        f"by {_found(rows, GRADIENT, SURVIVAL, INSIDE)} inside blocks, and with dissimilarity by "
        f"{_found(rows, DISSIMILARITY, GRADIENT, INSIDE)}."
    )


def _course(tables: Tables, measure: str, version: str = TRAINED) -> str:
    rows = tables["slopes"].query("measure == @measure and version == @version")
    kinds = rows.groupby("kind", sort=False)["value"]
    return ", ".join(f"{span(values, '+.3f')} ({kind})" for kind, values in kinds)


def _found(rows: pd.DataFrame, first: str, second: str, scope: str) -> str:
    chosen = rows.query("first == @first and second == @second and scope == @scope")
    return span(chosen["value"], "+.2f")


def _best(inside: pd.DataFrame) -> str:
    """Which of the measures of diversity goes best with survival, mean over the models."""
    means = inside[inside["first"].isin(DIVERSITY)].groupby("first")["value"].mean().dropna()
    if len(means) < 2:
        return "Too few measures of diversity put the heads of a block in an order to compare."
    return (
        f"Of the measures of diversity {means.idxmax()} goes best with survival inside blocks, by "
        f"{means.max():+.2f} on the mean of the models, and {means.idxmin()} least, by "
        f"{means.min():+.2f}."
    )
