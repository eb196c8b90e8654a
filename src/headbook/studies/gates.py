"""Notebook 17: Hard Concrete gates, and how they decide (Voita et al. 2019, Figure 6)."""

import numpy as np
import pandas as pd
import seaborn as sns
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.artefacts.model import trained
from headbook.artefacts.pruned import ENCODER_ONLY, EVERYTHING
from headbook.pruning.hard_concrete import CONSTANTS, Constants, Decision, HardConcrete, Source
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, model_labels, stacked
from headbook.studies.results import Tables
from headbook.studies.sweeps import Point, swept
from headbook.types import Kind

STUDY = "17_gates"
PRINTED = {0.0: (0.23, 0.23), 2.0: (0.04, 0.69), -3.0: (0.86, 0.01)}
"""Chances of zero and of one that Figure 6 prints, by log α."""
BINS = 40
SWEEPS = {"encoder only": ENCODER_ONLY, "all attentions": EVERYTHING}
NO_MODEL = {"model": "gate distribution", "corpus": "", "target": "", "seed": ""}
EDGE = float(np.log(11))
"""|log α| from which the code's gate is exactly 0 or 1: where σ is 1/12 or 11/12."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """The distribution of a gate, and how the first pruned model's gates came to decide."""
    store = store or Store.default()
    first, *others = [trained(run, store) for run in config.encoder_pruned_models()]
    sweeps = {name: list(swept(first, kinds, config, store)) for name, kinds in SWEEPS.items()}
    points = [(name, point) for name, found in sweeps.items() for point in found]
    further = [list(swept(model, ENCODER_ONLY, config, store)) for model in others]
    saturation = [_saturation(found) for found in (sweeps["encoder only"], *further)]
    probabilities = stacked(_probabilities(source) for source in Source)
    return {
        "densities": stacked(_densities(source) for source in Source),
        "probabilities": probabilities,
        "curve": stacked(_curve(name, point) for name, point in points),
        "gates": stacked(_gates(name, point) for name, point in points),
        "claims": pd.DataFrame([_printed(probabilities), *saturation]),
    }


def _gate(source: Source, log_alpha: float) -> HardConcrete:
    return HardConcrete(torch.tensor([log_alpha]), CONSTANTS[source]).requires_grad_(
        requires_grad=False
    )


def _probabilities(source: Source) -> pd.DataFrame:
    """One row a setting: chances of zero and one, beside those the figure prints."""
    rows = []
    for log_alpha, (zero, one) in PRINTED.items():
        gate = _gate(source, log_alpha)
        rows.append(
            {
                "constants": str(source),
                "beta": CONSTANTS[source].beta,
                "log_alpha": log_alpha,
                "zero": float(gate.closed_probability()),
                "one": float(gate.one_probability()),
                "printed_zero": zero,
                "printed_one": one,
            }
        )
    return pd.DataFrame(rows)


def concrete_below(
    values: Float[np.ndarray, " value"], log_alpha: float, constants: Constants
) -> Float[np.ndarray, " value"]:
    """P(s < value) of a Concrete variable before it is stretched: σ(β logit(value) - log α)."""
    inside = np.clip(values, 1e-12, 1 - 1e-12)
    return 1 / (1 + np.exp(log_alpha - constants.beta * np.log(inside / (1 - inside))))


def _densities(source: Source) -> pd.DataFrame:
    """One row a setting, distribution and bin of (0, 1): the mean density there."""
    constants = CONSTANTS[source]
    edges = np.linspace(0, 1, BINS + 1)
    unstretched = (edges - constants.gamma) / (constants.zeta - constants.gamma)
    tables = []
    for log_alpha in PRINTED:
        for name, at in (("Concrete", edges), ("Hard Concrete", unstretched)):
            below = concrete_below(at, log_alpha, constants)
            if name == "Concrete":
                below[[0, -1]] = 0, 1
            columns = {"from": edges[:-1], "to": edges[1:], "density": np.diff(below) * BINS}
            labels = {"constants": str(source), "log_alpha": log_alpha, "distribution": name}
            tables.append(pd.DataFrame(columns).assign(**labels))
    return stacked(tables)


def _curve(sweep: str, point: Point) -> pd.DataFrame:
    """One row a validation of one sweep point."""
    shown = ["update", "valid_loss_nats", "expected_heads", "kept_heads", "saturated_share"]
    heads = len(point.made.log_alphas)
    labels = {"sweep": sweep, "penalty": point.penalty, "heads": heads}
    return point.made.curve[shown].assign(**labels, model=_name(point))


def _gates(sweep: str, point: Point) -> pd.DataFrame:
    """One row a gate at the end of one sweep point; layers and heads from one."""
    gates = point.made.log_alphas
    return gates.assign(
        layer=gates["layer"] + 1,
        head=gates["head"] + 1,
        kept=gates["log_alpha"] > 0,
        saturated=_saturated(point),
        sweep=sweep,
        penalty=point.penalty,
        model=_name(point),
    )


def _saturated(point: Point) -> list[bool]:
    """Whether each gate, in the code's form, is exactly 0 or 1."""
    log_alphas = torch.tensor(point.made.log_alphas["log_alpha"].to_numpy(dtype=np.float32))
    gate = HardConcrete(log_alphas, CONSTANTS[Source.CODE], Decision.CLIPPED)
    return [bool(each) for each in gate.saturated().tolist()]


def _name(point: Point) -> str:
    return str(model_labels(point.made)["model"])


def _printed(probabilities: pd.DataFrame) -> dict[str, object]:
    figure = probabilities[probabilities["constants"] == str(Source.FIGURE)]
    apart = [(figure[name] - figure[f"printed_{name}"]).abs().max() for name in ("zero", "one")]
    return claim_row("voita-f6-probabilities", NO_MODEL, float(max(apart)))


def _saturation(points: list[Point]) -> dict[str, object]:
    """The share of gates of one sweep that are exactly 0 or 1."""
    decided = [each for point in points for each in _saturated(point)]
    labels = model_labels(points[0].made)
    return claim_row("voita-s6-gates-saturate", labels, float(np.mean(decided)))


def draw_distributions(tables: Tables) -> Figure:
    """Figure 6: the two densities at three settings, and the mass at zero and one."""
    densities, chances = tables["densities"], tables["probabilities"]
    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    axes = figure.subplots(len(Source), len(PRINTED), sharex=True, sharey=True)
    for row, source in zip(axes, Source, strict=True):
        for axis, log_alpha in zip(row, PRINTED, strict=True):
            chosen = "constants == @name and log_alpha == @log_alpha"
            local = {"name": str(source), "log_alpha": log_alpha}
            here = densities.query(chosen, local_dict=local)
            (chance,) = chances.query(chosen, local_dict=local).to_dict("records")
            _distribution(axis, here, chance)
            axis.set_title(f"{source}: β = {chance['beta']:g}, log α = {log_alpha:g}", fontsize=10)
        row[0].set_ylabel("density")
    for axis in axes[-1]:
        axis.set_xlabel("gate")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _distribution(axis: Axes, densities: pd.DataFrame, chance: dict[str, object]) -> None:
    """Steps for both densities; bars of mass at the ends, whose height is on the same scale."""
    colours = {"Concrete": "0.55", "Hard Concrete": "C0"}
    for name, of_name in densities.groupby("distribution"):
        edges = [*of_name["from"], of_name["to"].iloc[-1]]
        axis.stairs(of_name["density"].clip(upper=4), edges, color=colours[name], label=name,
                    linewidth=1.4)  # fmt: skip
    ends, masses = [-0.06, 1.06], [chance["zero"], chance["one"]]
    axis.bar(ends, [4 * mass for mass in masses], width=0.07, color="C1",
             label="mass at 0 and 1 (4 is all of it)")  # fmt: skip
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    for at, mass in zip((0.06, 0.94), masses, strict=True):
        axis.text(at, 3.55, f"{mass:.3f}", ha="left" if at < 0.5 else "right", fontsize=9,
                  color="C1", bbox=white)  # fmt: skip
    axis.set(ylim=(0, 4), xlim=(-0.12, 1.12))


def draw_learning(tables: Tables) -> Figure:
    """Heads expected open, and the share of gates that decided, against updates."""
    curve = tables["curve"]
    figure = Figure(figsize=(10.5, 6.2), layout="constrained")
    axes = figure.subplots(2, len(SWEEPS), sharex=True, sharey="row")
    penalties = sorted(curve["penalty"].unique())
    colours = dict(zip(penalties, sns.color_palette("viridis_r", len(penalties)), strict=True))
    for column, name in zip(axes.T, SWEEPS, strict=True):
        for penalty, of_point in curve[curve["sweep"] == name].groupby("penalty"):
            style = {"color": colours[penalty], "marker": ".", "label": f"λ = {penalty:g}"}
            heads = of_point["heads"]
            column[0].plot(of_point["update"], of_point["expected_heads"] / heads, **style)
            column[0].plot(of_point["update"], of_point["kept_heads"] / heads, linestyle=":",
                           color=colours[penalty])  # fmt: skip
            column[1].plot(of_point["update"], of_point["saturated_share"], **style)
        column[0].set(title=f"gates on {name}", ylim=(-0.03, 1.03))
        column[1].set(xlabel="update", ylim=(-0.03, 1.03))
    axes[0, 0].set_ylabel("share of heads: expected open\n(dotted: kept at test time)")
    axes[1, 0].set_ylabel("share of gates exactly 0 or 1")
    handles = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)
    return figure


def draw_gates(tables: Tables) -> Figure:
    """Every gate's final log α, by penalty and kind of attention."""
    gates = tables["gates"].assign(penalty=[f"{each:g}" for each in tables["gates"]["penalty"]])
    figure = Figure(figsize=(10.5, 6.6), layout="constrained")
    for axis, name in zip(figure.subplots(len(SWEEPS), 1), SWEEPS, strict=True):
        here = gates[gates["sweep"] == name]
        kinds = [str(kind) for kind in Kind if kind in set(here["kind"])]
        sns.stripplot(here, x="penalty", y="log_alpha", hue="kind", dodge=True, size=3.2, alpha=0.8,
                      jitter=0.25, hue_order=kinds, ax=axis,
                      legend=name == "all attentions")  # fmt: skip
        axis.axhspan(-EDGE, EDGE, color="0.9", zorder=0)
        axis.axhline(0, color="0.4", linewidth=0.8, zorder=1)
        axis.set(title=f"gates on {name}", xlabel="penalty λ of one head", ylabel="final log α")
    axis.legend(title=None, frameon=False, fontsize=8, loc="best")
    return figure


def probability_table(tables: Tables) -> pd.DataFrame:
    """Chances of zero and one with both constants, beside those the figure prints."""
    found = tables["probabilities"]
    return found.rename(
        columns={"log_alpha": "log α", "beta": "β", "zero": "P(0)", "one": "P(1)",
                 "printed_zero": "P(0), printed", "printed_one": "P(1), printed"}
    )  # fmt: skip


def end_table(tables: Tables) -> pd.DataFrame:
    """One row a sweep point: what is left at the end, and how far the gates have decided."""
    last = tables["curve"].sort_values("update").groupby(["sweep", "penalty"], sort=True).tail(1)
    ordered = last.sort_values(["sweep", "penalty"], ascending=[False, True])
    return pd.DataFrame(
        {
            "gates on": ordered["sweep"],
            "λ": ordered["penalty"],
            "heads kept": ordered["kept_heads"].astype(int),
            "of": ordered["heads"],
            "heads expected open": ordered["expected_heads"],
            "gates exactly 0 or 1, %": 100 * ordered["saturated_share"],
        }
    )


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    chances = tables["probabilities"]
    apart = {
        source: max((rows[n] - rows[f"printed_{n}"]).abs().max() for n in ("zero", "one"))
        for source, rows in chances.groupby("constants")
    }
    parts = []
    for name in SWEEPS:
        ends = end_table(tables).query("`gates on` == @name", local_dict={"name": name})
        gates = tables["gates"].query("sweep == @name", local_dict={"name": name})
        parts.append(
            f"with gates on {name} the sweep keeps from {ends['heads kept'].min()} to "
            f"{ends['heads kept'].max()} of {ends['of'].iloc[0]} heads, and "
            f"{gates['saturated'].mean():.0%} of its gates end exactly open or closed"
        )
    return (
        f"The numbers printed in Figure 6 come out with β = {CONSTANTS[Source.FIGURE].beta} "
        f"(largest difference {apart[str(Source.FIGURE)]:.4f}) and not with the code's β = "
        f"{CONSTANTS[Source.CODE].beta} ({apart[str(Source.CODE)]:.3f}). For "
        f"{tables['gates']['model'].iloc[0]}, {'; '.join(parts)}."
    )
