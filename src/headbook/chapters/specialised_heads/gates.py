"""Page 17: Hard Concrete gates, and how they close (Voita et al. 2019, section 6.1, Figure 6)."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from headbook.artefacts.model import trained
from headbook.artefacts.pruned import ENCODER_ONLY, EVERYTHING
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.sweeps import Point, swept
from headbook.chapters.tables import claim_row, model_labels, of_ours, of_small, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.gates import over_last_sixth
from headbook.pruning.hard_concrete import CONSTANTS, Constants, Decision, HardConcrete, Source
from headbook.runs.store import Store

NUMBER = 17
TITLE = "How does a gate learn to close?"
WORK = "voita2019"
KEYS = ("model", "sweep", "penalty")

PRINTED = {0.0: (0.23, 0.23), 2.0: (0.04, 0.69), -3.0: (0.86, 0.01)}
"""Chances of zero and of one that Figure 6 prints, by log α."""
BINS = 40
STILL_DECIDING = 0.01
"""Of the share of decided gates in the last sixth of the updates, mean over a sweep: a tenth of the
distance of the claim's threshold from all of them."""
SWEEPS = {"encoder only": ENCODER_ONLY, "all attentions": EVERYTHING}
NO_MODEL = {"model": "gate distribution", "corpus": "", "target": "", "seed": ""}


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """At a profile, the distribution of a gate and the gates of its sweeps."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The distribution of a gate, and the gates of the first pruned model through training."""
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
    """One row per setting: chances of zero and one, beside those the figure prints."""
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
    """One row per setting, distribution and bin of (0, 1): the mean density there."""
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
    """One row per validation of one sweep point."""
    shown = ["update", "valid_loss_nats", "expected_heads", "kept_heads", "saturated_share"]
    heads = len(point.made.log_alphas)
    labels = {"sweep": sweep, "penalty": point.penalty, "heads": heads}
    return point.made.curve[shown].assign(**labels, model=_name(point))


def _gates(sweep: str, point: Point) -> pd.DataFrame:
    """One row per gate at the end of one sweep point; layers and heads from one."""
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
    """The share of gates of one sweep that are exactly 0 or 1; not judged while it still rises."""
    decided = [each for point in points for each in _saturated(point)]
    labels = model_labels(points[0].made)
    row = claim_row("voita-s6-gates-saturate", labels, float(np.mean(decided)))
    return row | still_deciding(
        point.made.curve.set_index("update")["saturated_share"] for point in points
    )


def still_deciding(curves: Iterable[pd.Series]) -> dict[str, str]:
    """The closed gate of the claim where the share of decided gates, by update, still rises."""
    changes = [over_last_sixth(each) for each in curves]
    if None in changes:
        return {"closed": "converged: gates were not looked at before their last updates"}
    moved = float(np.mean(changes))
    if moved <= STILL_DECIDING:
        return {}
    return {"closed": f"converged: {moved:.1%} of the gates were decided in their last updates"}


def cumulative(tables: Tables, source: Source = Source.FIGURE) -> pd.DataFrame:
    """P(gate ≤ value) at every second bin's edge of [0, 1], one curve per log α.

    At 0 stands the chance of exactly zero, at 1 that of anything below one.
    """
    frames = []
    for log_alpha, chance in _chances(tables, source).iterrows():
        rows = tables["densities"].query(
            "constants == @source and log_alpha == @log_alpha and distribution == 'Hard Concrete'"
        )
        inside = np.concatenate([[0], rows["density"].cumsum() / len(rows)])
        edges = np.append(rows["from"], 1.0)
        frame = pd.DataFrame({"gate": edges, "value": chance["zero"] + inside})
        frames.append(frame[::2].assign(gates=f"log α = {log_alpha:g}".replace("-", "−")))
    return stacked(frames)


def printed(tables: Tables) -> pd.DataFrame:
    """The chances that Figure 6 prints: of zero at 0, and at 1 what is left below one."""
    rows = _chances(tables, Source.FIGURE)
    return pd.DataFrame(
        {"gate": [0.0] * len(rows) + [1.0] * len(rows),
         "value": [*rows["printed_zero"], *(1 - rows["printed_one"])]}
    )  # fmt: skip


def _chances(tables: Tables, source: Source) -> pd.DataFrame:
    return tables["probabilities"].query("constants == @source").set_index("log_alpha")


def deciding(tables: Tables, sweep: str = "encoder only") -> pd.DataFrame:
    """Per cent of gates exactly 0 or 1 through training, one curve per penalty λ."""
    rows = tables["curve"].query("sweep == @sweep").sort_values(["penalty", "update"])
    shares = 100 * rows["saturated_share"]
    return rows.assign(value=shares, penalty="λ = " + rows["penalty"].map("{:g}".format))


def ends(tables: Tables) -> pd.DataFrame:
    """One row per sweep and penalty: heads left at the end, and gates exactly 0 or 1."""
    last = tables["curve"].sort_values("update").groupby(["sweep", "penalty"], sort=True).tail(1)
    rows = last.sort_values(["sweep", "penalty"], ascending=[False, True])
    return pd.DataFrame(
        {
            "gates on": rows["sweep"],
            "λ": rows["penalty"].map("{:g}".format),
            "heads left": rows["kept_heads"].astype(int),
            "of": rows["heads"],
            "heads expected open": rows["expected_heads"].map("{:.1f}".format),
            "gates exactly 0 or 1": rows["saturated_share"].map(words.percent),
        }
    )


def decided(tables: Tables) -> pd.Series:
    """Share of gates exactly 0 or 1 over the encoder sweep, by corpus: the mean over its seeds."""
    rows = tables["claims"].query("claim == 'voita-s6-gates-saturate'")
    return rows.groupby("corpus", sort=False)["value"].mean()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the small models, and of the long training."""
    ours, tables = of_ours(tables), of_small(tables)
    figure, code = (_chances(tables, source) for source in (Source.FIGURE, Source.CODE))
    apart = [(figure[name] - figure[f"printed_{name}"]).abs().max() for name in ("zero", "one")]
    found: Facts = {
        "beta": f"{CONSTANTS[Source.FIGURE].beta:g}",
        "beta_code": f"{CONSTANTS[Source.CODE].beta:g}",
        "gamma": f"{CONSTANTS[Source.CODE].gamma:g}".replace("-", "−"),
        "zeta": f"{CONSTANTS[Source.CODE].zeta:g}",
        "apart": f"{max(apart):.3f}",
        "updates": words.count(int(tables["curve"]["update"].max())),
        "gates": str(int(tables["curve"].query("sweep == 'encoder only'")["heads"].iloc[0])),
    }
    for name, log_alpha in (("middle", 0.0), ("open", 2.0), ("closed", -3.0)):
        row, other = figure.loc[log_alpha], code.loc[log_alpha]
        found[f"{name}_paper"] = f"{row['printed_zero']:.2f} / {row['printed_one']:.2f}"
        found[name] = f"{row['zero']:.3f} / {row['one']:.3f}"
        found[f"{name}_code"] = f"{other['zero']:.3f} / {other['one']:.3f}"
    for start, of in (("", tables), ("ours_", ours)):
        if len(of["curve"]):
            last = deciding(of).groupby(["model", "penalty"])["value"].last() / 100
            found[f"{start}decided_range"] = words.percents(last)
            found[f"{start}updates"] = words.count(int(of["curve"]["update"].max()))
    return found
