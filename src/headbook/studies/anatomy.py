"""Notebook 01: attention's two matrix products, and that its scores are not symmetric."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
import seaborn as sns
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from headbook.artefacts.heads import BATCH_TOKENS, encoded
from headbook.corpora import controlled
from headbook.corpora.batches import EOS, collate, in_order
from headbook.heads.collect import collect
from headbook.heads.measure import RatioSums, percentiles
from headbook.heads.symmetry import TokenAsymmetry, asymmetry, projection_asymmetry
from headbook.models.capture import Point, Tape, capture
from headbook.models.transformer import Transformer
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import Measurement, claim_row, measurements, stacked
from headbook.studies.results import Tables
from headbook.types import Kind

STUDY = "01_anatomy"
PIECES = 10
"""Subwords of the sentence that is shown, EOS among them, or as near as the corpus comes."""
VECTORS = (Point.QUERIES, Point.KEYS, Point.VALUES, Point.CONTEXT)
UNRELATED = 0.5
"""The share that unrelated entries come near to."""
ACROSS = 3
"""Panels side by side."""
LABELS = {"scores": r"$QK^\top$", "projections": r"$W_Q W_K^\top$"}


class Version(StrEnum):
    """Which weights a row is of."""

    UNTRAINED = "untrained"
    TRAINED = "trained"
    TIED = "tied"  # the trained model with every encoder key projection its query projection


COLOURS = {Version.UNTRAINED: "#9a9a9a", Version.TRAINED: "#8e6bb3", Version.TIED: "#e08e45"}


@dataclass(frozen=True)
class Subject:
    """A model in one version, and its scores' asymmetry [layer, head] on held-out sentences."""

    version: Version
    measurement: Measurement
    model: Transformer
    asymmetry: RatioSums

    @property
    def labels(self) -> dict[str, object]:
        return {**self.measurement.labels, "version": str(self.version)}


@dataclass(frozen=True)
class Shown:
    """The head and the sentence of the pictures."""

    layer: int
    head: int
    ids: list[int]
    tokens: list[str]


def compute(config: Config, store: Store | None = None) -> Tables:
    """One head on one sentence (first model), and every head's asymmetry (all models)."""
    subjects = list(_subjects(config, store or Store.default()))
    # the first model's versions, the trained one in front
    one = [each for each in subjects if each.measurement.trained.run == config.one_model()]
    shown = _shown(one[0].measurement)
    tapes = [(each, _recorded(each.model, shown.ids)) for each in one]
    return {
        "sentence": stacked(_sentence(each, tape, shown) for each, tape in tapes),
        "matrices": stacked(_matrices(each, tape, shown) for each, tape in tapes),
        "vectors": _vectors(*tapes[0], shown),
        "asymmetry": stacked(_per_head(each) for each in subjects),
        "claims": pd.DataFrame([row for each in subjects for row in _claims(each)]),
    }


def _subjects(config: Config, store: Store) -> Iterator[Subject]:
    for each in measurements(config, store, updates=(None, 0)):
        if each.run.update == 0:
            yield Subject(Version.UNTRAINED, each, each.trained.untrained(), each.sums["asymmetry"])
        else:
            trained = each.trained.model()
            yield Subject(Version.TRAINED, each, trained, each.sums["asymmetry"])
            yield Subject(Version.TIED, each, tied(trained), _measured(tied(trained), each))


def tied(model: Transformer) -> Transformer:
    """A copy in which every encoder head asks and answers with its query projection."""
    copy = deepcopy(model)
    for kind, _, attention in copy.attentions():
        if kind is Kind.ENCODER:
            attention.key.load_state_dict(attention.query.state_dict())
    return copy


def _measured(model: Transformer, measurement: Measurement) -> RatioSums:
    """The scores' asymmetry of a model that no store keeps, on the measurement's sentences."""
    measure = TokenAsymmetry()
    batches = list(in_order(encoded(measurement.trained, measurement.text), BATCH_TOKENS))
    collect(model, batches, [measure])
    return measure.sums()


def _shown(measurement: Measurement) -> Shown:
    """The most confident head, on a sentence of the controlled corpus.

    That corpus is generated, so its sentences can be published whatever the model was trained on.
    """
    confidence = measurement.sums["confidence/encoder"].ratio()
    layer, head = divmod(int(confidence.nan_to_num(-1).argmax()), confidence.shape[1])
    source = measurement.trained.source
    sentences = controlled.split(controlled.TargetOrder.SVO)[2].source
    ids = min(source.encode(sentences), key=lambda row: abs(len(row) - PIECES))
    return Shown(layer, head, ids, source.pieces(ids))


@torch.inference_mode()
def _recorded(model: Transformer, ids: Sequence[int]) -> Tape:
    with capture(model, {*VECTORS, Point.SCORES, Point.WEIGHTS}) as tape:
        model(collate([(ids, [EOS])], [0]))
    return tape


def _of_head(tape: Tape, point: Point, shown: Shown) -> Tensor:
    return tape[Kind.ENCODER, point][shown.layer][0, shown.head].double()


def _sentence(subject: Subject, tape: Tape, shown: Shown) -> pd.DataFrame:
    """One row: the head, the sentence and the asymmetry of this one score matrix."""
    share = float(asymmetry(_of_head(tape, Point.SCORES, shown)[:-1, :-1]))
    row = {"layer": shown.layer + 1, "head": shown.head + 1, "tokens": " ".join(shown.tokens)}
    return pd.DataFrame([{**subject.labels, **row, "share": share}])


def _matrices(subject: Subject, tape: Tape, shown: Shown) -> pd.DataFrame:
    """One row a (query, key): score, weight, and the score's symmetric and antisymmetric part."""
    scores = _of_head(tape, Point.SCORES, shown)
    numbers = {"score": scores, "weight": _of_head(tape, Point.WEIGHTS, shown)}
    numbers |= {"symmetric": (scores + scores.mT) / 2, "antisymmetric": (scores - scores.mT) / 2}
    rows = _cells(("query", "key"), numbers).assign(**subject.labels)
    tokens = dict(enumerate(shown.tokens, start=1))
    return rows.assign(query_token=rows["query"].map(tokens), key_token=rows["key"].map(tokens))


def _vectors(subject: Subject, tape: Tape, shown: Shown) -> pd.DataFrame:
    """One row a (token, dimension) of the head: query, key, value and context."""
    numbers = {str(point): _of_head(tape, point, shown) for point in VECTORS}
    rows = _cells(("token", "dimension"), numbers).assign(**subject.labels)
    return rows.assign(text=rows["token"].map(dict(enumerate(shown.tokens, start=1))))


def _per_head(subject: Subject) -> pd.DataFrame:
    """Asymmetry of every head's scores, with its interval, and of its projections."""
    low, high = subject.asymmetry.interval()
    numbers = {"scores": subject.asymmetry.ratio(), "low": low, "high": high,
               "projections": _projections(subject.model)}  # fmt: skip
    return _cells(("layer", "head"), numbers).assign(**subject.labels)


def _cells(axes: Sequence[str], numbers: Mapping[str, Tensor]) -> pd.DataFrame:
    """One row a cell of tensors of one shape, its place counted from one."""
    shape = next(iter(numbers.values())).shape
    places = 1 + torch.cartesian_prod(*map(torch.arange, shape)).T
    values = {name: each.flatten().tolist() for name, each in numbers.items()}
    return pd.DataFrame({**dict(zip(axes, places.tolist(), strict=True)), **values})


def _projections(model: Transformer) -> Tensor:
    """Asymmetry of W_Q W_Kᵀ [layer, head]; biases and the norm's gain are left out."""
    blocks = [block for kind, _, block in model.attentions() if kind is Kind.ENCODER]
    heads = (len(blocks), blocks[0].heads, -1)
    query = torch.cat([block.query.weight.detach() for block in blocks]).unflatten(0, heads)
    key = torch.cat([block.key.weight.detach() for block in blocks]).unflatten(0, heads)
    return projection_asymmetry(query.mT, key.mT)


def _claims(subject: Subject) -> Iterator[dict[str, object]]:
    """The head at the edge: an interval of the extreme itself, chosen anew in every replicate."""
    heads = subject.asymmetry.replicates().flatten(1)
    asked = {
        Version.TRAINED: ("why-scores-not-symmetric", heads.amin(1)),
        Version.TIED: ("why-tied-scores-symmetric", heads.amax(1)),
    }
    if subject.version in asked:
        claim, edge = asked[subject.version]
        ends = map(float, percentiles(edge[1:]))
        yield claim_row(claim, subject.labels, float(edge[0]), *ends)


def draw_products(tables: Tables) -> Figure:
    """The two matrix products of one head: QKᵀ/√d, and its softmax times V."""
    figure = Figure(figsize=(15, 9), layout="constrained")
    (queries, keys, scores), (weights, values, context) = figure.subplots(2, 3)
    vectors = tables["vectors"]
    _vector_map(queries, vectors, Point.QUERIES, "Q")
    _vector_map(keys, vectors, Point.KEYS, "K (transposed in the product)")
    _vector_map(values, vectors, Point.VALUES, "V")
    _vector_map(context, vectors, Point.CONTEXT, "context = AV")
    trained = tables["matrices"].query("version == 'trained'")
    _token_map(scores, trained, "score", "S = QKᵀ/√d")
    _token_map(weights, trained, "weight", "A = softmax of each row of S")
    head = tables["sentence"].iloc[0]
    figure.suptitle(f"{head['model']}, encoder layer {head['layer']}, head {head['head']}")
    return figure


def _vector_map(axis: Axes, vectors: pd.DataFrame, point: Point, title: str) -> None:
    values = vectors.pivot(index="token", columns="dimension", values=str(point))
    tokens = vectors.drop_duplicates("token")["text"]
    sns.heatmap(values, cmap="vlag", center=0, ax=axis, cbar_kws={"shrink": 0.7},
                yticklabels=list(tokens))  # fmt: skip
    axis.set(title=title, xlabel="dimension of the head", ylabel="token")
    axis.tick_params(length=0)


def _token_map(axis: Axes, matrices: pd.DataFrame, column: str, title: str) -> None:
    """A heat map of one number a (query, key); scores and their parts share their colours."""
    values = matrices.pivot(index="query", columns="key", values=column)
    tokens = list(matrices.drop_duplicates("query")["query_token"])
    largest = matrices["score"].abs().max()
    signed = {"cmap": "vlag", "vmin": -largest, "vmax": largest}
    colours = {"cmap": "Purples", "vmin": 0} if column == "weight" else signed
    sns.heatmap(values, annot=True, fmt="z.2f", annot_kws={"size": 7}, ax=axis, cbar=False,
                xticklabels=tokens, yticklabels=tokens, **colours)  # fmt: skip
    axis.set(title=title, xlabel="key", ylabel="query")
    axis.tick_params(length=0)


def draw_parts(tables: Tables) -> Figure:
    """The head's scores, and their symmetric and antisymmetric part, in every version."""
    figure = Figure(figsize=(15, 4.6 * len(Version)), layout="constrained")
    shares = tables["sentence"].set_index("version")["share"]
    # EOS is left out, as in the measure
    inner = tables["matrices"].query("query < query.max() and key < key.max()")
    for row, version in zip(figure.subplots(len(Version), 3), Version, strict=True):
        matrices = inner[inner["version"] == version]
        _token_map(row[0], matrices, "score", f"{version}: S")
        _token_map(row[1], matrices, "symmetric", "symmetric part (S + Sᵀ)/2")
        share = f"antisymmetric part (S − Sᵀ)/2: {shares[version]:.2g} of the energy"
        _token_map(row[2], matrices, "antisymmetric", share)
    return figure


def draw_asymmetry(tables: Tables, column: str = "scores") -> Figure:
    """Asymmetry of every head, one mark each, one panel a model; `column` of its table."""
    shares = tables["asymmetry"]
    names = list(shares["model"].unique())
    across, down = min(len(names), ACROSS), -(-len(names) // ACROSS)
    figure = Figure(figsize=(1 + 4.4 * across, 0.6 + 3.2 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for axis, name in zip(axes, names, strict=False):
        of_model = shares[shares["model"] == name]
        sns.stripplot(of_model, x="layer", y=column, hue="version", hue_order=list(Version),
                      palette=COLOURS, dodge=True, jitter=False, size=4.5, ax=axis)  # fmt: skip
        axis.axhline(UNRELATED, color="0.3", lw=0.8, ls=":", label="unrelated entries")
        handles = axis.get_legend_handles_labels()
        axis.get_legend().remove()
        axis.set(title=name, ylabel=f"asymmetry of {LABELS[column]}", ylim=(-0.04, 1.0))
    for axis in axes[len(names) :]:
        axis.axis("off")
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def draw_projections(tables: Tables) -> Figure:
    """Asymmetry of the projections alone."""
    return draw_asymmetry(tables, "projections")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    shares = tables["asymmetry"].set_index("version")
    one = tables["sentence"].set_index("version").loc[Version.TRAINED]
    trained, untrained, copy = (shares.loc[[str(each)]] for each in
                                (Version.TRAINED, Version.UNTRAINED, Version.TIED))  # fmt: skip
    return (
        f"The head shown is the most confident of {one['model']}: layer {one['layer']}, head "
        f"{one['head']}; on this sentence the antisymmetric part holds {one['share']:.0%} of its "
        f"scores' energy. Over {len(trained)} encoder heads in "
        f"{trained['model'].nunique()} models the share of the scores runs from "
        f"{trained['scores'].min():.2f} to {trained['scores'].max():.2f}, its mean "
        f"{trained['scores'].mean():.2f} (untrained {untrained['scores'].mean():.2f}); that of the "
        f"projections has the mean {trained['projections'].mean():.2f} (untrained "
        f"{untrained['projections'].mean():.2f}). Tied, the largest share of any head is "
        f"{copy['scores'].max():.1g}."
    )
