"""Notebook 14: the rare-word head (Voita et al. 2019, section 5.3 and Figure 5)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.corpora.batches import EncodedPair, collate
from headbook.heads.measure import percentiles
from headbook.heads.rare import OUTSIDE_TOP, RareUnit, rare_tokens
from headbook.models.capture import Point, capture
from headbook.runs.store import Store
from headbook.stages.heads import DEFAULT, encoded
from headbook.stages.model import TrainedModel
from headbook.studies.config import Config
from headbook.studies.interactive import END, AttendedSentence, AttentionMaps
from headbook.studies.measurements import (
    RAREST,
    Measurement,
    claim_row,
    head_rows,
    measurements,
    model_name,
    stacked,
)
from headbook.studies.rare_rivals import (
    COLUMNS,
    GROUPS,
    chosen_head,
    piece_ranks,
    rival_rows,
    scored,
)
from headbook.studies.results import Tables
from headbook.types import Kind

STUDY = "14_rare_word_head"
BY_SENTENCE = replace(DEFAULT, rare_unit=RareUnit.SENTENCE)
FIRST_LAYER, EVERY_LAYER = "first layer", "every layer"
NAN = float("nan")
MAPPED, WIDEST = 3, 15
"""Sentences whose maps are shown, and their most tokens."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Shares at the rarest tokens under both readings, beside chance, and split by rival causes."""
    store = store or Store.default()
    by_query = list(measurements(config, store, updates=(None, 0)))
    by_sentence = list(measurements(config, store, choices=BY_SENTENCE))
    best = [each for each in by_query if each.run.update is None]
    both = [*by_query, *by_sentence]
    return {
        "shares": stacked(_shares(each) for each in both),
        "baselines": stacked(_baselines(each) for each in both),
        "chosen": stacked(_chosen(each) for each in both),
        "kept": pd.DataFrame([_kept(each) for each in by_sentence]),
        "rivals": pd.DataFrame([row for each in best for row in rival_rows(each)], columns=COLUMNS),
        "claims": pd.DataFrame([row for each in best for row in _claims(each)]),
    }


def _labels(measurement: Measurement) -> dict[str, object]:
    return {**measurement.labels, "unit": str(measurement.run.choices.rare_unit)}


def _shares(measurement: Measurement) -> pd.DataFrame:
    """One row a head and way of counting: the rarest token, one of the two rarest."""
    rows = head_rows(measurement).query("measure == 'rare'").drop(columns=["measure", "kind"])
    return rows.rename(columns={"detail": "pointing"}).assign(**_labels(measurement))


def _baselines(measurement: Measurement) -> pd.DataFrame:
    """What a head gets that points anywhere equally often, and one of random weights."""
    names = {"chance": "rare chance", "random head": "random rare"}
    rows = [
        {"baseline": name, "pointing": pointing, "value": float(value)}
        for name, sums in names.items()
        for pointing, value in zip(RAREST, measurement.sums[sums].ratio()[0, 0], strict=True)
    ]
    return pd.DataFrame(rows).assign(**_labels(measurement))


def _kept(measurement: Measurement) -> dict[str, object]:
    """How many sentences have a token outside the most frequent; counted by sentence only."""
    kept, every = measurement.sums["rare"].denominator[:, 0].sum(), len(measurement.text.sentences)
    return {**measurement.labels, "outside_top": OUTSIDE_TOP, "sentences": every,
            "kept": int(kept), "share": float(kept) / every}  # fmt: skip


def _chosen(measurement: Measurement) -> pd.DataFrame:
    """The head with most pointing at the two rarest, chosen on one half and scored on the other."""
    sums, rows = measurement.sums, []
    for scope, layers in ((FIRST_LAYER, 1), (EVERY_LAYER, None)):
        head = chosen_head(sums["rare"], layers)
        for column, pointing in enumerate(RAREST):
            value, low, high = scored(sums["rare"], head, column)
            rows.append(
                {"scope": scope, "layer": head[0] + 1 if head else NAN,
                 "head": head[1] + 1 if head else NAN, "pointing": pointing, "value": value,
                 "low": low, "high": high, "chance": scored(sums["rare chance"], (0, 0), column)[0],
                 "random": scored(sums["random rare"], (0, 0), column)[0]}
            )  # fmt: skip
    return pd.DataFrame(rows).assign(**_labels(measurement))


def _claims(measurement: Measurement) -> Iterator[dict[str, object]]:
    sums, labels = measurement.sums, measurement.labels
    head = chosen_head(sums["rare"], 1)
    for claim, column in (("rarest", 0), ("two-rarest-short", 1), ("two-rarest-long", 1)):
        chance = scored(sums["rare chance"], (0, 0), column)[0]
        found = scored(sums["rare"], head, column)
        yield claim_row(f"voita-f5-{claim}", labels, *found, baseline=chance)
    shares = sums["rare"].replicates()[..., 1]
    layers = shares.nan_to_num(nan=-1).amax(-1).argmax(-1).double() + 1
    layers[shares.isnan().all(-1).all(-1)] = NAN
    ends = map(float, percentiles(layers[1:]))
    yield claim_row("voita-f5-first-layer", labels, float(layers[0]), *ends)


def attention_maps(config: Config, store: Store | None = None) -> AttentionMaps:
    """Weights of the first model on a few short sentences; no table, as it holds their words."""
    measurement = next(iter(measurements(config, store or Store.default())))
    trained = measurement.trained
    pairs, ranks = encoded(trained, measurement.text), piece_ranks(trained)
    layer, head = chosen_head(measurement.sums["rare"], 1) or (0, 0)
    shown = [_attended(trained, pairs[at], ranks) for at in _short_and_kept(pairs, ranks)]
    return AttentionMaps(model_name(trained.run), tuple(shown), layer + 1, head + 1)


def _short_and_kept(pairs: Sequence[EncodedPair], ranks: torch.Tensor) -> list[int]:
    """The longest sentences that fit, those with a rare token first; the shortest if none fits."""

    def unfit(index: int) -> tuple[bool, bool, int, int]:
        source = pairs[index][0]
        common = int(ranks[list(source)].amax()) < OUTSIDE_TOP
        return len(source) > WIDEST, common, abs(WIDEST - len(source)), index

    return sorted(range(len(pairs)), key=unfit)[:MAPPED]


def _attended(trained: TrainedModel, pair: EncodedPair, ranks: torch.Tensor) -> AttendedSentence:
    """One sentence through the model; its two rarest tokens are marked."""
    batch, model = collate([pair], [0]), trained.model()
    with torch.inference_mode(), capture(model, {Point.WEIGHTS}) as tape:
        model(batch)
    weights = torch.cat(tape[Kind.ENCODER, Point.WEIGHTS]).cpu()
    marked = rare_tokens(batch, ranks).places[0, 1].tolist()
    names = trained.source.pieces(pair[0])[:-1]
    return AttendedSentence((*names, END), tuple(marked), weights)


def draw_shares(tables: Tables) -> Figure:
    """Every encoder head by layer under both readings; the first layer's chosen head is ringed."""
    names = list(tables["shares"]["model"].unique())
    panels = [(str(unit), pointing) for unit in RareUnit for pointing in RAREST]
    figure = Figure(figsize=(15, 0.6 + 2.5 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), len(panels), squeeze=False, sharey=True)
    for row, name in zip(axes, names, strict=True):
        for axis, (unit, pointing) in zip(row, panels, strict=True):
            asked = f"model == {name!r} and unit == {unit!r} and pointing == {pointing!r}"
            _by_layer(axis, *(tables[of].query(asked) for of in ("shares", "baselines", "chosen")))
            axis.set(title=f"{pointing}, by {unit}", xlabel="layer", ylim=(-0.03, 1.03))
        row[0].set_ylabel(f"{name}\nshare of pointing")
    handles, texts = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), frameon=False)
    return figure


def _by_layer(
    axis: Axes, shares: pd.DataFrame, baselines: pd.DataFrame, chosen: pd.DataFrame
) -> None:
    for update, colour, shift in (("0", "0.7", -0.15), ("best", "#4c72b0", 0.15)):
        dots = shares[shares["update"].astype(str) == update]
        label = "untrained model, by query" if update == "0" else "every head"
        axis.plot(dots["layer"] + shift, dots["value"], "o", color=colour, ms=3.5, label=label)
    trained = baselines[baselines["update"].astype(str) == "best"].set_index("baseline")["value"]
    axis.axhline(trained["chance"], color="black", ls=":", lw=1, label="chance")
    axis.axhline(trained["random head"], color="#c44e52", ls="--", lw=1, label="random weights")
    best = chosen[(chosen["update"].astype(str) == "best") & (chosen["scope"] == FIRST_LAYER)]
    ends = [best["value"] - best["low"], best["high"] - best["value"]]
    axis.errorbar(best["layer"] + 0.35, best["value"], ends, fmt="D", color="#e08e45", ms=5,
                  label="first layer's chosen head, other half of the sentences")  # fmt: skip
    _note_where_empty(axis, shares)
    layers = sorted(shares["layer"].unique())
    axis.set(xticks=layers, xlim=(layers[0] - 0.5, layers[-1] + 0.5))


def draw_rivals(tables: Tables) -> Figure:
    """The chosen head's share in sentences split by what else it could follow."""
    rivals, names = tables["rivals"], list(tables["kept"]["model"].unique())
    splits = list(dict.fromkeys(by for by, _ in GROUPS))
    figure = Figure(figsize=(12, 0.5 + 2.5 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), len(splits), squeeze=False, sharey=True)
    for row, name in zip(axes, names, strict=True):
        for axis, by in zip(row, splits, strict=True):
            _split(axis, rivals.query("model == @name and by == @by"), by)
        row[0].set_ylabel(f"{name}\none of two rarest")
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure


def _split(axis: Axes, rows: pd.DataFrame, by: str) -> None:
    groups = [group for split, group in GROUPS if split == by]
    rows = rows.set_index("group").reindex(groups).astype({"value": float})
    ends = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
    axis.errorbar(range(len(groups)), rows["value"], ends, fmt="D", color="#e08e45", label="head")
    axis.plot(range(len(groups)), rows["chance"], "_", color="black", ms=22, label="chance")
    _note_where_empty(axis, rows)
    axis.set_xticks(range(len(groups)), groups)
    axis.set(title=by, xlim=(-0.6, len(groups) - 0.4), ylim=(-0.03, 1.03))


def _note_where_empty(axis: Axes, rows: pd.DataFrame) -> None:
    if rows["value"].isna().all():
        axis.text(0.5, 0.5, "no sentence counts", ha="center", transform=axis.transAxes)


def chosen_table(tables: Tables) -> pd.DataFrame:
    """The chosen heads of the trained models under both readings; none where no sentence counts."""
    shown = ["model", "unit", "scope", "layer", "head", "pointing", "value", "low", "high",
             "chance", "random"]  # fmt: skip
    trained = tables["chosen"][tables["chosen"]["update"].astype(str) == "best"]
    return trained[shown].dropna(subset="value")


def kept_table(tables: Tables) -> pd.DataFrame:
    """How many sentences the rule of the 500 most frequent keeps."""
    return tables["kept"][["model", "text", "outside_top", "sentences", "kept", "share"]]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    kept, chosen = tables["kept"], chosen_table(tables)
    opening = (
        f"{kept['kept'].sum()} of {kept['sentences'].sum()} sentences have a token outside the "
        f"{kept['outside_top'].iloc[0]} most frequent"
    )
    chosen = chosen[chosen["pointing"] == RAREST[1]]
    if chosen.empty:
        return f"{opening}, so there is nothing to say about rare words here."
    by_query = chosen[chosen["unit"] == str(RareUnit.QUERY)]
    first = by_query[by_query["scope"] == FIRST_LAYER]
    layers = by_query[by_query["scope"] == EVERY_LAYER]["layer"].astype(int)
    by_sentence = chosen.query("unit == @RareUnit.SENTENCE.value and scope == @FIRST_LAYER")
    rivals = tables["rivals"].assign(margin=lambda rows: rows["value"] - rows["chance"])
    least = rivals.loc[rivals["margin"].idxmin()]
    return (
        f"{opening}. The first layer's head chosen on one half of them points at one of the two "
        f"rarest tokens for {_span(first['value'])} of the queries on the other half, where chance "
        f"gives {_span(first['chance'])}; counted by sentence it is {_span(by_sentence['value'])}. "
        f"Over all layers the head that does so most sits in layer "
        f"{', '.join(map(str, sorted(set(layers))))}. Split by position and length, the first "
        f"layer's head comes nearest to chance in {least['model']} ({least['by']}: "
        f"{least['group']}): {least['value']:.0%} against {least['chance']:.0%}."
    )


def _span(values: pd.Series) -> str:
    low, high = f"{values.min():.0%}", f"{values.max():.0%}"
    return low if low == high else f"{low} to {high}"
