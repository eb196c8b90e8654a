"""Notebook 13: heads that follow a syntactic relation (Voita et al. 2019, Figure 4 and Table 1)."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pandas as pd
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from headbook.artefacts.heads import DEFAULT
from headbook.artefacts.model import trained
from headbook.artefacts.texts import HELD_OUT
from headbook.claims.ledger import load as ledger
from headbook.heads.arcs import PieceRule
from headbook.heads.measure import Selection, best_head, percentiles
from headbook.heads.offset_baseline import offset_baseline
from headbook.heads.tokens import EosKeys
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import (
    RELATION_NAMES,
    Measurement,
    accuracies,
    best_margins,
    best_rows,
    claim_row,
    measure,
    measurements,
    stacked,
    text_of,
)
from headbook.studies.parser_effect import EFFECT, parser_effect
from headbook.studies.results import Tables
from headbook.trees import RELATION_DIRECTIONS

STUDY = "13_syntactic_heads"
BEST = "best"
OF_VERBS = [relation in ("nsubj", "dobj") for relation, _ in RELATION_DIRECTIONS]
SUBJECTS = [relation == "nsubj" for relation, _ in RELATION_DIRECTIONS]
COLOURS = ("#1f3f6e", "#d98e3f", "#7fa8d6", "#b8b8b8", "#8e6bb3", "#4f9d69")
HATCHES = ("", "///", "...", "xx", "\\\\", "++")
SHORT_NAMES = [name.replace(" head_to_dependent", "\nh→d").replace(" dependent_to_head", "\nd→h")
               for name in RELATION_NAMES]  # fmt: skip


def compute(config: Config, store: Store | None = None) -> Tables:
    """Best heads and baselines on every text, domains, the gain by luck, what choices move."""
    store = store or Store.default()
    found = list(measurements(config, store, config.texts, updates=(None, 0)))
    best = stacked(_with_everything(each) for each in found)
    own = [each for each in found if each.text.name == HELD_OUT and each.run.update is None]
    return {
        "best": best,
        "domains": _domains(best),
        "parser_effect": parser_effect(config, store),
        "choices": stacked(_choices(config, store)),
        "claims": pd.DataFrame([*_claims(own), *_domain_claims(own)]),
    }


def _with_everything(measurement: Measurement) -> pd.DataFrame:
    """`best_rows`, and what choosing and scoring on all sentences gives, as the paper does."""
    everything = best_head(measurement.sums["syntactic"], Selection.EVERYTHING)
    baseline = offset_baseline(measurement.sums["offsets"], Selection.EVERYTHING)
    return best_rows(measurement).assign(
        everything=everything.score.tolist(),
        everything_low=everything.low.tolist(),
        everything_high=everything.high.tolist(),
        everything_baseline=baseline.accuracy.tolist(),
    )


def _domains(best: pd.DataFrame) -> pd.DataFrame:
    """Held-out sentences of trained models, by the kind of sentences of their corpus: Table 1."""
    kinds = {name: kind for kind, names in ledger().domains.items() for name in names}
    own = best[(best["text"] == HELD_OUT) & (best["update"] == BEST)]
    domain = own["corpus"].str.split("-").str[0].map(kinds).fillna("neither")
    columns = ["domain", "corpus", "model", "seed", "relation", "direction", "value", "low", "high",
               "baseline", "baseline_low", "baseline_high", "arcs"]  # fmt: skip
    return own.assign(domain=domain)[columns].reset_index(drop=True)


def _choices(config: Config, store: Store) -> Iterator[pd.DataFrame]:
    """The first model's held-out text under every piece rule and with EOS as a key."""
    model = trained(config.one_model(), store)
    text = text_of(model, HELD_OUT, config, store)
    variants = [("pieces", replace(DEFAULT, pieces=rule)) for rule in PieceRule]
    variants.append(("eos_keys", replace(DEFAULT, eos_keys=EosKeys.COUNTED)))
    for choice, choices in variants:
        rows = best_rows(measure(model, text, store, choices))
        yield rows.assign(choice=choice, option=str(getattr(choices, choice)))


def _claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Per model: the eight accuracies, and by how much the verb's relations lead."""
    for each in own:
        for row in best_rows(each).to_dict("records"):
            claim = f"voita-t1-{row['relation']}-{row['direction'].replace('_', '-')}"
            numbers = {name: row[name] for name in ("value", "low", "high", "baseline")}
            yield claim_row(claim, each.labels, **numbers)
        margins = best_margins(each)
        verbs = torch.tensor(OF_VERBS)
        lead = margins[:, verbs].mean(1) - margins[:, ~verbs].mean(1)
        yield _row("voita-f4-verb-relations-strongest", each.labels, lead)


def _domain_claims(own: list[Measurement]) -> Iterator[dict[str, object]]:
    """Subjects in short sentences minus subjects in long ones, pair by pair of models."""
    domains = ledger().domains
    short, long = ([each for each in own if each.trained.run.corpus.split("-")[0] in domains[name]]
                   for name in ("short", "long"))  # fmt: skip
    pairs = list(product(short, long))
    same = [(one, two) for one, two in pairs if one.labels["target"] == two.labels["target"]]
    for one, two in same or pairs:
        first, second = (accuracies(each)[:, SUBJECTS].mean(1) for each in (one, two))
        # Both texts number their sentences from 0; shifted, their resamples are independent.
        second = torch.cat([second[:1], second[1:].roll(1)])
        labels = {**one.labels, "model": f"{one.labels['model']} minus {two.labels['model']}"}
        yield _row("voita-t1-nsubj-easier-in-short", labels, first - second)


def _row(
    claim: str, labels: dict[str, object], replicates: Float[Tensor, " replicate"]
) -> dict[str, object]:
    """A contrast with its interval."""
    low, high = percentiles(replicates[1:])
    return claim_row(claim, labels, float(replicates[0]), float(low), float(high))


def draw_best(tables: Tables) -> Figure:
    """Figure 4: the best head of every relation-direction, one panel a text, one bar a corpus."""
    best = tables["best"].assign(name=lambda table: table["relation"] + " " + table["direction"])
    texts = list(best["text"].unique())
    figure = Figure(figsize=(12, 0.9 + 2.9 * len(texts)), layout="constrained")
    grid = figure.subplots(len(texts), 1, squeeze=False)[:, 0]
    for axis, text in zip(grid, texts, strict=True):
        of_text = best[best["text"] == text]
        corpora = list(of_text["corpus"].unique())
        for place, corpus in enumerate(corpora):
            centre = -0.4 + 0.8 * (place + 0.5) / len(corpora)
            of_corpus = of_text[of_text["corpus"] == corpus]
            _bars(axis, of_corpus, corpus, place, centre, 0.74 / len(corpora))
        axis.set(ylabel="accuracy", ylim=(0, 1.02), xlim=(-0.6, 7.6), title=f"text: {text}")
        axis.set_xticks(range(len(RELATION_NAMES)), SHORT_NAMES)
    handles, labels = grid[0].get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named.keys(), loc="outside right upper", frameon=False)
    return figure


def _bars(
    axis: Axes, rows: pd.DataFrame, corpus: str, place: int, centre: float, width: float
) -> None:
    """One corpus' eight bars (mean of seeds), each seed's interval, and what knows no syntax."""
    models, untrained = rows[rows["update"] == BEST], rows[rows["update"] != BEST]
    at = [number + centre for number in range(len(RELATION_NAMES))]
    style = {"color": COLOURS[place % 6], "hatch": HATCHES[place % 6], "edgecolor": "white"}
    axis.bar(at, _by_name(models, "value"), width, label=corpus, **style)
    seeds = list(models.groupby("seed"))
    for number, (_, each) in enumerate(seeds):
        across = width * (0.6 * (number + 0.5) / len(seeds) - 0.3)
        value, low, high = (_by_name(each, name) for name in ("value", "low", "high"))
        spread = [(value - low).clip(0), (high - value).clip(0)]
        axis.errorbar([x + across for x in at], value, yerr=spread, fmt="none", ecolor="black",
                      elinewidth=1, capsize=1.5)  # fmt: skip
    axis.hlines(_by_name(models, "baseline"), [x - width / 2 for x in at],
                [x + width / 2 for x in at], color="red", linewidth=2.2, zorder=4,
                label="commonest offset")  # fmt: skip
    marks = {"markersize": 5, "markeredgecolor": "black", "linestyle": "none", "zorder": 5}
    axis.plot(at, _by_name(untrained, "value"), "o", markerfacecolor="white",
              label="untrained model", **marks)  # fmt: skip
    axis.plot(at, _by_name(models, "random"), "x", label="random head", **marks)


def _by_name(rows: pd.DataFrame, column: str) -> pd.Series:
    """Mean over seeds for each relation-direction, in their order."""
    return rows.groupby("name")[column].mean().reindex(RELATION_NAMES)


def draw_luck(tables: Tables) -> Figure:
    """The same best heads under three ways of choosing and scoring, one panel a model."""
    own = tables["best"].query("text == @HELD_OUT and update == @BEST")
    names = list(own["model"].unique())
    columns = min(len(names), 3)
    figure = Figure(figsize=(4.6 * columns, 0.5 + 2.9 * -(-len(names) // 3)), layout="constrained")
    axes = list(figure.subplots(-(-len(names) // 3), columns, squeeze=False).flat)
    ways = {
        "chosen": ("^", "on the half that chose"),
        "everything": ("s", "chosen and scored on all"),
        "value": ("o", "on the other half"),
    }
    for axis, name in zip(axes, names, strict=False):
        rows = own[own["model"] == name]
        for (column, (marker, label)), colour in zip(ways.items(), COLOURS, strict=False):
            axis.plot(range(8), rows[column], marker, color=colour, label=label, markersize=6,
                      alpha=0.85)  # fmt: skip
        axis.set(title=name, ylim=(0, 1.02), ylabel="accuracy of the best head")
        axis.set_xticks(range(8), SHORT_NAMES, fontsize=7)
    for axis in axes[len(names) :]:
        axis.axis("off")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3,
                  frameon=False)  # fmt: skip
    return figure


def domain_table(tables: Tables) -> pd.DataFrame:
    """Table 1: best head / baseline in per cent, a column a model, short sentences beside long."""
    rows = tables["domains"]
    cells = rows.assign(
        cell=[f"{value:.0%} / {base:.0%}".replace("%", "")
              for value, base in zip(rows["value"], rows["baseline"], strict=True)],
        column=rows["model"] + " (" + rows["domain"] + ")",
        name=rows["relation"] + " " + rows["direction"],
    )  # fmt: skip
    wide = cells.pivot(index="name", columns="column", values="cell").reindex(RELATION_NAMES)
    return wide.rename_axis("relation and direction").reset_index().rename_axis(columns=None)


def choices_table(tables: Tables) -> pd.DataFrame:
    """Best accuracy / baseline of the first model, in per cent, a column a choice."""
    rows = tables["choices"].assign(
        which=lambda table: table["choice"] + ": " + table["option"],
        cell=lambda table: (100 * table["value"]).map("{:.0f}".format) + " / "
        + (100 * table["baseline"]).map("{:.0f}".format),
        name=lambda table: table["relation"] + " " + table["direction"],
    )  # fmt: skip
    wide = rows.pivot(index="name", columns="which", values="cell")
    wide = wide.loc[RELATION_NAMES, list(rows["which"].unique())]
    return wide.rename_axis("relation and direction").reset_index().rename_axis(columns=None)


def parser_table(tables: Tables) -> pd.DataFrame:
    """Gold trees against the parser's, without the model's labels; empty where no text has gold."""
    return tables["parser_effect"][["text", *EFFECT]]


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    own = tables["best"].query("text == @HELD_OUT and update == @BEST")
    margin = own["value"] - own["baseline"]
    top = own.loc[margin.idxmax()]
    untrained = tables["best"].query("text == @HELD_OUT and update != @BEST")
    luck = (own["everything"] - own["value"]).mean()
    rules = tables["choices"].groupby(["relation", "direction"])["value"]
    moved = (rules.max() - rules.min()).max()
    lines = [
        f"In {int((margin >= 0.1).sum())} of {len(own)} cases (model and relation-direction) the "
        f"best head is ten points or more above the commonest offset. The largest margin is "
        f"{margin.max():+.0%} ({top['model']}, {top['relation']} {top['direction']}: "
        f"{top['value']:.0%} against {top['baseline']:.0%}). Before training the best heads reach "
        f"{untrained['value'].mean():.0%} on average, trained {own['value'].mean():.0%}. Choosing "
        f"and scoring on the same sentences adds {luck:+.1%} on average. The choice of pieces and "
        f"of EOS moves a best accuracy of the first model by up to {moved:.0%}."
    ]
    effect = tables["parser_effect"]
    if len(effect):
        worst = effect.loc[effect["moved"].abs().idxmax()]
        lines.append(
            f"The parser's trees instead of gold ones move an accuracy by "
            f"{effect['moved'].abs().mean():.1%} on average, at most {worst['moved']:+.1%} "
            f"({worst['relation']} {worst['direction']}, {worst['text']})."
        )
    return " ".join(lines)
