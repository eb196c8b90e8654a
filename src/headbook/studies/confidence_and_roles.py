"""Notebook 11: confidence and roles of every head (Voita et al. 2019, Figures 1b and 1c)."""

from collections.abc import Iterator
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.heads.measure import percentiles
from headbook.heads.positional import Place
from headbook.heads.roles import Role, Thresholds
from headbook.runs.store import Store
from headbook.stages.heads import DEFAULT, Choices
from headbook.studies.config import Config
from headbook.studies.measurements import (
    Measurement,
    claim_row,
    head_scores,
    measurements,
    models,
    role_rows,
    stacked,
)
from headbook.studies.results import Tables
from headbook.studies.role_maps import RoleMap, draw_role_maps, short

STUDY = "11_confidence_and_roles"
CONFIDENT = 0.70
"""What the ledger calls a confident head (claim voita-f1b-few-confident)."""
NEIGHBOURS = {"-1", "+1"}
ANY_OFFSET = "largest_any_offset"
"""Of tables published before own token, neighbour and other offsets were apart: the largest share
at one offset, the own token's among them; these rows do not tell the offset."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Scores and roles of every head, how they came about, and what the choices move."""
    store = store or Store.default()
    found = list(measurements(config, store, updates=(None, 0)))
    best = [each for each in found if each.run.update is None]
    roles = stacked(role_rows(each) for each in found)
    return {
        "scores": stacked(head_scores(each) for each in found),
        "roles": roles[roles["held"]].drop(columns="held").reset_index(drop=True),
        "training": stacked(_through_training(config, store)),
        "choices": stacked(_choices(config, store)),
        "claims": pd.DataFrame([row for each in best for row in _claims(each)]),
    }


def _through_training(config: Config, store: Store) -> Iterator[pd.DataFrame]:
    for model in models(config, store):
        updates = [0, *model.snapshots]
        for each in measurements(config, store, updates=updates, runs=[model.run]):
            yield _summary(each).assign(update=each.run.update)


def _summary(measurement: Measurement) -> pd.DataFrame:
    """One row: the sharpest head of each sort, and how many heads hold each role."""
    scores = head_scores(measurement)
    encoder = scores[scores["kind"] == "encoder"]
    roles = role_rows(measurement)
    held = roles[roles["held"]].drop_duplicates(["layer", "head", "role"])["role"].value_counts()
    return pd.DataFrame(
        [
            {
                **measurement.labels,
                "mean_confidence": encoder["confidence"].mean(),
                "largest_confidence": encoder["confidence"].max(),
                **{f"largest_{place}": encoder[place].max() for place in Place},
                "largest_margin": encoder["margin"].max(),
                "largest_rare": encoder["rare"].max(),
                **{f"{role}_heads": int(held.get(role, 0)) for role in Role},
            }
        ]
    )


def _choices(config: Config, store: Store) -> Iterator[pd.DataFrame]:
    """The first model under every other value of every choice, one at a time."""
    first = [config.one_model()]
    for choice, value, choices in _alternatives():
        for each in measurements(config, store, choices=choices, runs=first):
            yield _summary(each).assign(choice=choice, option=value)


def _alternatives() -> Iterator[tuple[str, str, Choices]]:
    yield "declared default", "", DEFAULT
    for field in fields(Choices):
        for value in type(getattr(DEFAULT, field.name)):
            if value is not getattr(DEFAULT, field.name):
                yield field.name, str(value), replace(DEFAULT, **{field.name: value})


def _claims(measurement: Measurement) -> Iterator[dict[str, object]]:
    labels, scores = measurement.labels, head_scores(measurement)
    scores = scores[scores["kind"] == "encoder"].set_index(["layer", "head"])
    roles = role_rows(measurement)
    roles = roles[roles["held"]]
    positional = roles[roles["role"] == Role.POSITIONAL]
    heads = list(dict.fromkeys(zip(positional["layer"], positional["head"], strict=True)))
    yield _least_confident(labels, scores, heads)
    confident = scores["confidence"] >= CONFIDENT
    yield claim_row("voita-f1b-few-confident", labels, float(confident.mean()))
    top = list(scores["confidence"].nlargest(len(heads)).index)
    shared = len(set(top) & set(heads)) / len(heads) if heads else float("nan")
    yield claim_row("voita-f1b-confident-are-positional", labels, shared)
    yield _rare_head_confidence(measurement)
    yield claim_row("voita-f1c-positional", labels, float(len(heads)))
    yield claim_row("voita-f1c-positional-adjacent", labels, _adjacent(scores))
    covered = len(NEIGHBOURS & set(positional["detail"]))
    yield claim_row("voita-f1c-both-neighbours", labels, float(covered))
    for claim, role in (("voita-f1c-syntactic", Role.SYNTACTIC), ("voita-f1c-rare", Role.RARE)):
        holders = roles[roles["role"] == role].drop_duplicates(["layer", "head"])
        yield claim_row(claim, labels, float(len(holders)))
    without = 1 - len(roles.drop_duplicates(["layer", "head"])) / len(scores)
    yield claim_row("voita-f1c-unclassified", labels, without)


def _adjacent(scores: pd.DataFrame) -> float:
    """Of the heads at one fixed offset, whichever it is, the share of those at a neighbour."""
    fixed = scores[[*Place]] >= Thresholds().positional
    heads = fixed[fixed.any(axis=1)]
    return float(heads[Place.NEIGHBOUR].mean()) if len(heads) else float("nan")


def _least_confident(
    labels: dict[str, object], scores: pd.DataFrame, heads: list[tuple[int, int]]
) -> dict[str, object]:
    """The least confident positional head, with its own interval."""
    claim = "voita-f1b-positional-confident"
    if not heads:
        return claim_row(claim, labels, float("nan"))
    least = scores.loc[heads].nsmallest(1, "confidence").iloc[0]
    return claim_row(claim, labels, *least[["confidence", "confidence_low", "confidence_high"]])


def _rare_head_confidence(measurement: Measurement) -> dict[str, object]:
    """Confidence of the head that points most at rare tokens, minus the mean of all heads."""
    rare = measurement.sums["rare"].ratio()[..., 1].nan_to_num(-1)
    layer, head = divmod(int(rare.argmax()), rare.shape[1])
    replicates = measurement.sums["confidence/encoder"].replicates()
    difference = replicates[:, layer, head] - replicates.mean(dim=(1, 2))
    ends = map(float, percentiles(difference[1:]))
    return claim_row(
        "voita-f1b-rare-not-confident", measurement.labels, float(difference[0]), *ends
    )


def draw_scores(tables: Tables) -> Figure:
    """Every model's encoder heads: confidence, shares at fixed offsets, best relation, rare words.

    A cell is empty where a published table does not tell the share.
    """
    scores = tables["scores"].query("kind == 'encoder' and update == 'best'")
    names = list(scores["model"].unique())
    layers = int(scores["layer"].max())
    # seaborn draws the whole figure once per heat map: at 100 dots an inch three dozen of them take
    # 16 GB. The dots of the picture that is shown are set when it is saved.
    figure = Figure(figsize=(11, (2.4 + 1.65 * layers) * len(names)), dpi=20)
    for part, name in zip(np.atleast_1d(figure.subfigures(len(names), 1)), names, strict=True):
        of_model = scores[scores["model"] == name]
        gaps = {
            "hspace": 0.45,
            "wspace": 0.15,
            "top": 0.89,
            "bottom": 0.06,
            "left": 0.06,
            "right": 0.98,
        }
        (confidence, neighbour), (own, other), (margin, rare) = part.subplots(
            3, 2, gridspec_kw=gaps
        )
        part.suptitle(name, fontweight="bold")
        _heat(confidence, of_model, "confidence", None, "confidence", (0.0, 1.0))
        _heat(neighbour, of_model, Place.NEIGHBOUR, "neighbour_offset", "share at a neighbour",
              (0.0, 1.0))  # fmt: skip
        _heat(own, of_model, Place.OWN, None, "share at the own token: no role", (0.0, 1.0))
        _heat(other, of_model, Place.OTHER, "other_offset", "share at an offset farther away: no "
              "role", (0.0, 1.0))  # fmt: skip
        _heat(margin, of_model, "margin", "relation", "best accuracy minus baseline", (-0.5, 0.5))
        _heat(rare, of_model, "rare", None, "pointing at one of the two rarest", (0.0, 1.0))
    return figure


def _heat(
    axis: Axes,
    scores: pd.DataFrame,
    column: str,
    label: str | None,
    title: str,
    span: tuple[float, float],
) -> None:
    values = scores.pivot(index="layer", columns="head", values=column)
    notes = values.map(lambda value: f"{value:.2f}".replace("0.", ".") if value == value else "")
    if label:
        names = scores.pivot(index="layer", columns="head", values=label)
        named = names.map(lambda name: short(name).replace(" ", "\n") if name == name else "")
        notes = notes + "\n" + named
    colours = "vlag" if span[0] < 0 else "Purples"
    size = 6.5 if column == "margin" else 8
    sns.heatmap(values, annot=notes, fmt="", cmap=colours, vmin=span[0], vmax=span[1], cbar=False,
                linewidths=0.5, ax=axis, annot_kws={"size": size})  # fmt: skip
    axis.set(title=title, xlabel="head", ylabel="layer")
    axis.tick_params(length=0)
    if values.isna().all(axis=None):
        axis.text(0.5, 0.5, "no sentence counts", ha="center", transform=axis.transAxes)


def draw_roles(tables: Tables) -> Figure:
    """Figure 1c: the role of every encoder head, labelled; white where it has none."""
    scores = tables["scores"].query("kind == 'encoder' and update == 'best'")
    roles = tables["roles"].query("update == 'best'")
    return draw_role_maps(
        [
            RoleMap(name, (int(of_model["layer"].max()), int(of_model["head"].max())),
                    roles[roles["model"] == name])
            for name, of_model in scores.groupby("model", sort=False)
        ]
    )  # fmt: skip


def draw_training(tables: Tables) -> Figure:
    """The sharpest head of each sort at checkpoints through training."""
    columns = {
        ANY_OFFSET: "largest share at one offset, own token among them",
        "largest_neighbour": "largest share at a neighbour",
        "largest_own": "largest share at the own token",
        "largest_other": "largest share at an offset farther away",
        "largest_margin": "largest accuracy minus baseline",
        "largest_rare": "largest share at the two rarest",
        "largest_confidence": "largest confidence",
    }
    training = tables["training"].astype({"update": int})
    shown = [(column, title) for column, title in columns.items() if column in training]
    rows = -(-len(shown) // 2)
    figure = Figure(figsize=(10, 3.2 * rows), layout="constrained")
    for axis, (column, title) in zip(figure.subplots(rows, 2).flat, shown, strict=True):
        sns.lineplot(training, x="update", y=column, hue="model", style="model", markers=True,
                     dashes=False, ax=axis, legend=column == "largest_confidence")  # fmt: skip
        axis.set_xscale("symlog", linthresh=training["update"].loc[lambda at: at > 0].min())
        ticks = sorted(set(training["update"]))[::2]
        axis.set_xticks(ticks, map(str, ticks), rotation=45)
        axis.minorticks_off()
        axis.set(title=title, ylabel="", ylim=(-0.6 if "margin" in column else 0, 1))
    axis.get_legend().remove()
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def choices_table(tables: Tables) -> pd.DataFrame:
    """What each choice the paper leaves open moves, for the first model."""
    shown = ["choice", "option", "mean_confidence", ANY_OFFSET,
             *(f"largest_{place}" for place in Place), "largest_margin", "largest_rare",
             *(f"{role}_heads" for role in Role)]  # fmt: skip
    choices = tables["choices"]
    return choices[[name for name in shown if name in choices]].fillna("")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    scores = tables["scores"].query("kind == 'encoder'")
    best, untrained = scores.query("update == 'best'"), scores.query("update == '0'")
    roles = tables["roles"].query("update == 'best'").drop_duplicates(["model", "layer", "head"])
    return (
        f"Of {len(best)} encoder heads in {best['model'].nunique()} models {len(roles)} hold a "
        f"role. {' '.join(_fixed_offsets(best, untrained))} "
        f"Mean confidence is {best['confidence'].mean():.2f} "
        f"(untrained {untrained['confidence'].mean():.2f}). The largest accuracy above the offset "
        f"baseline is {best['margin'].max():+.0%} (untrained {untrained['margin'].max():+.0%}), "
        f"and the head that points most at one of the two rarest tokens does so for "
        f"{best['rare'].max():.0%} of the queries (untrained {untrained['rare'].max():.0%})."
    )


def _fixed_offsets(best: pd.DataFrame, untrained: pd.DataFrame) -> Iterator[str]:
    """The largest share at a neighbour, at the own token and farther away."""
    says = {
        Place.NEIGHBOUR: "The largest share at a neighbour",
        Place.OWN: "The largest share at the own token, which is no role,",
        Place.OTHER: "The largest share at one offset farther away",
    }
    for place, said in says.items():
        if best[place].isna().all():
            continue
        top = best.loc[best[place].idxmax()]
        at = "" if place is Place.OWN else f" at offset {top[f'{place}_offset']}"
        yield (
            f"{said} is {_least(best, place)}{top[place]:.0%}{at} ({top['model']}, layer "
            f"{top['layer']}, head {top['head']}); before training it was "
            f"{_least(untrained, place)}{untrained[place].max():.0%}."
        )
    told = best[Place.NEIGHBOUR].notna()
    if not told.all():
        first = best.query("layer == 1 and own > neighbour.fillna(0)")
        yield (
            f"The published table names each head's best of all offsets alone: its share at a "
            f"neighbour is told for {told.sum()} of {len(best)} heads, those whose best offset is "
            f"one. {best[Place.OWN].notna().sum()} heads look most at their own token, "
            f"{len(first)} of them in a first layer; how often these look at a neighbour besides "
            f"cannot be told."
        )


def _least(scores: pd.DataFrame, place: Place) -> str:
    """Where a head of which the table does not tell this share might have a larger one."""
    untold = scores.loc[scores[place].isna(), [*Place]].max(axis=None)
    return "at least " if untold > scores[place].max() else ""
