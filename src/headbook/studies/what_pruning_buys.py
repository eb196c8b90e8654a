"""Notebook 24: what pruning buys once heads are really cut out (Michel et al. 2019, Table 4)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.pruned import EVERYTHING
from headbook.artefacts.speed import Speed, SpeedRun, Task, speed
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.studies.config import Config
from headbook.studies.measurements import claim_row, model_labels
from headbook.studies.results import Tables
from headbook.studies.sweeps import shuffled, swept
from headbook.types import HeadId

STUDY = "24_what_pruning_buys"
SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of every block's heads, rounded down to whole heads."""
HALF = 0.5
EVEN, GATES = "every block alike", "as the gates chose"
ROUNDS, TOKENS = 15, 20
PUBLISHED = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
"""Michel et al.'s Table 4: percent more examples a second by batch size, BERT without half."""
RESAMPLES = 2000

Masks = dict[tuple[HeadId, ...], str]
"""Sets of heads to cut out, with how they were chosen."""


def compute(config: Config, store: Store | None = None) -> Tables:
    """Speed, size and equality of the first examined model without these heads, or those."""
    store = store or Store.default()
    model = trained(config.examined_models()[0], store)
    chosen = _masks(model, config, store)
    few = config.preset.pruning.translated  # a profile for trying out has few of everything
    run = SpeedRun(
        tuple(chosen), tokens=min(TOKENS, few), rounds=int(np.clip(few // 20, 2, ROUNDS))
    )
    measured = speed(model, run, store)
    sizes = _sizes(measured, list(chosen.values())).assign(model=model_labels(model)["model"])
    return {
        "sizes": sizes,
        "speed": _speed(measured, sizes),
        "claims": pd.DataFrame(_claims(model_labels(model), measured, _half(model, run.masks))),
        "machine": pd.DataFrame([measured.hardware]),
    }


def _masks(model: TrainedModel, config: Config, store: Store) -> Masks:
    """Fixed shares of every block, and what the sweep of all attentions closed."""
    found: Masks = {_evenly(model, share): EVEN for share in SHARES}
    for point in swept(model, EVERYTHING, config, store):
        found.setdefault(tuple(sorted(point.closed)), GATES)
    return found


def _evenly(model: TrainedModel, share: float) -> tuple[HeadId, ...]:
    """So many heads of every block, at random: which they are makes no model faster."""
    heads = model.run.size.heads
    first = [each for each in all_heads(model.untrained()) if each.head < int(share * heads)]
    return tuple(sorted(shuffled(first, heads, model.run.training.seed)))


def _half(model: TrainedModel, masks: Sequence[tuple[HeadId, ...]]) -> int:
    return list(masks).index(_evenly(model, HALF))


def _sizes(measured: Speed, names: Sequence[str]) -> pd.DataFrame:
    """One row a mask: how many heads are gone, and what is smaller by how much."""
    sizes = measured.sizes.assign(chosen=list(names))
    whole = sizes.iloc[0]
    return sizes.assign(
        share_pruned=1 - sizes["heads"] / whole["heads"],
        share_of_parameters=sizes["parameters"] / whole["parameters"],
        share_of_bytes=sizes["bytes"] / whole["bytes"],
        relative_difference=sizes["largest_difference"] / sizes["largest_logit"],
        attention_share=sizes["attention_parameters"] / sizes["parameters"],
    )


def _gains(measured: Speed, task: str, batch: int, mask: int) -> np.ndarray:
    """By how much the model is faster than the whole one, round by round."""
    rows = measured.times.query("task == @task and batch == @batch")
    seconds = rows.pivot(index="round", columns="mask", values="seconds")
    return (seconds[0] / seconds[mask] - 1).to_numpy()


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """The median over the rounds and the 95 % interval of a bootstrap over them."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    return (float(np.median(values)), *percentile_interval(np.median(drawn, axis=1)))


def _speed(measured: Speed, sizes: pd.DataFrame) -> pd.DataFrame:
    """One row a task, batch size and mask: what a second holds, and the gain with its spread."""
    rows = []
    for (task, batch, mask), times in measured.times.groupby(["task", "batch", "mask"], sort=False):
        gain, low, high = _interval(_gains(measured, task, batch, mask))
        rows.append(
            {
                "task": task,
                "batch": batch,
                "mask": mask,
                "tokens_per_second": (times["tokens"] / times["seconds"]).median(),
                "sentences_per_second": (times["sentences"] / times["seconds"]).median(),
                "gain_percent": 100 * gain,
                "low_percent": 100 * low,
                "high_percent": 100 * high,
                "rounds": len(times),
            }
        )
    named = sizes[["mask", "chosen", "heads", "share_pruned", "model"]]
    return pd.DataFrame(rows).merge(named, on="mask")


def _claims(labels: dict[str, object], measured: Speed, half: int) -> Iterator[dict[str, object]]:
    largest, smallest = (
        _gains(measured, Task.DECODING, pick(measured.run.batches), half) for pick in (max, min)
    )
    yield claim_row("michel-t4-faster-in-large-batches", labels, *_interval(largest))
    one_at_a_time = float(np.median(smallest))
    yield claim_row(
        "michel-t4-batch-size-matters", labels, *_interval(largest - smallest), one_at_a_time
    )
    apart = measured.sizes.iloc[half]
    same = apart["largest_difference"] / apart["largest_logit"]
    yield claim_row("michel-s4-cut-equals-masked", labels, float(same))
    whole = measured.sizes.iloc[0]
    share = whole["attention_parameters"] / whole["parameters"]
    yield claim_row("michel-s4-attention-third-of-parameters", labels, float(share))


def table_4(tables: Tables) -> pd.DataFrame:
    """Table 4: decoding with half of every block's heads cut out, by batch size."""
    decoding = tables["speed"].query("task == 'decoding'")
    whole = decoding[decoding["mask"] == 0].set_index("batch")["tokens_per_second"]
    cut = decoding[decoding["mask"] == _half_of(tables)].set_index("batch")
    return pd.DataFrame(
        {
            "batch": cut.index,
            "whole model, tokens/s": whole.reindex(cut.index).to_numpy(),
            "half the heads, tokens/s": cut["tokens_per_second"].to_numpy(),
            "gain, %": cut["gain_percent"].to_numpy(),
            "from, %": cut["low_percent"].to_numpy(),
            "to, %": cut["high_percent"].to_numpy(),
            "BERT in the paper, %": [PUBLISHED.get(batch, np.nan) for batch in cut.index],
        }
    ).fillna("")


def _half_of(tables: Tables) -> int:
    """The mask that comes nearest to half of every block's heads from below."""
    even = tables["sizes"].query("chosen == @EVEN and share_pruned <= @HALF")
    return int(even.loc[even["share_pruned"].idxmax(), "mask"])


def size_table(tables: Tables) -> pd.DataFrame:
    """What is left of the model, mask by mask."""
    sizes = tables["sizes"].sort_values("heads", ascending=False)
    return pd.DataFrame(
        {
            "heads": sizes["heads"],
            "heads pruned, %": 100 * sizes["share_pruned"],
            "chosen": sizes["chosen"],
            "parameters": sizes["parameters"].map("{:,}".format),
            "of the whole, %": 100 * sizes["share_of_parameters"],
            "MiB on disk": sizes["bytes"] / 2**20,
            "largest difference of logits": sizes["largest_difference"].map("{:.1e}".format),
        }
    )


def draw_speed(tables: Tables) -> Figure:
    """The gain in speed against the share of heads cut out, by task and batch size."""
    rows = tables["speed"]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    titles = {"decoding": "greedy decoding, tokens/s", "forward": "one forward pass, sentences/s"}
    colours = dict(zip(sorted(rows["batch"].unique()), sns.color_palette("crest", 4), strict=False))
    for axis, (task, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for batch, of_batch in rows[rows["task"] == task].groupby("batch"):
            ordered = of_batch.sort_values("share_pruned")
            share, gain = 100 * ordered["share_pruned"], ordered["gain_percent"]
            axis.plot(share, gain, color=colours[batch], label=f"batches of {batch}", zorder=2)
            axis.fill_between(share, ordered["low_percent"], ordered["high_percent"],
                              color=colours[batch], alpha=0.2, linewidth=0)  # fmt: skip
            for chosen, marker in ((EVEN, "o"), (GATES, "D")):
                some = ordered["chosen"] == chosen
                axis.scatter(share[some], gain[some], color=colours[batch], marker=marker, s=22)
        axis.axhline(0, color="0.6", linewidth=0.8)
        axis.set(title=title, xlabel="heads cut out, %", ylabel="faster than the whole model by, %")
    handles, names = axis.get_legend_handles_labels()
    handles += [axis.scatter([], [], color="0.4", marker=m, s=22) for m in ("o", "D")]
    figure.legend(handles, [*names, EVEN, GATES], loc="outside lower center", ncols=3)
    return figure


def draw_sizes(tables: Tables) -> Figure:
    """Parameters and bytes that are left against the heads that are left."""
    sizes = tables["sizes"].sort_values("share_pruned")
    figure = Figure(figsize=(5.6, 3.8), layout="constrained")
    axis = figure.subplots()
    pruned = 100 * sizes["share_pruned"]
    for column, label, style in (("share_of_parameters", "parameters", "-o"),
                                 ("share_of_bytes", "bytes on disk", "--s")):  # fmt: skip
        axis.plot(pruned, 100 * sizes[column], style, markersize=4, label=label)
    axis.set(xlabel="heads cut out, %", ylabel="left of the whole model, %", ylim=(0, 105))
    axis.legend(frameon=False)
    return figure


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    decoding = tables["speed"].query("task == 'decoding' and mask == @half",
                                     local_dict={"half": _half_of(tables)})  # fmt: skip
    size = tables["sizes"].set_index("mask").loc[_half_of(tables)]
    gains = [
        f"{row['gain_percent']:+.1f} % in batches of {row['batch']} "
        f"({row['low_percent']:+.1f} to {row['high_percent']:+.1f})"
        for row in decoding.sort_values("batch").to_dict("records")
    ]
    whole = tables["sizes"].iloc[0]
    machine = tables["machine"].iloc[0]
    where = machine["gpu"] if isinstance(machine["gpu"], str) else machine["processor"]
    least = tables["sizes"].loc[tables["sizes"]["heads"].idxmin()]
    return (
        f"Cutting {size['share_pruned']:.0%} of the heads of every block out of {size['model']} "
        f"leaves {size['share_of_parameters']:.0%} of its parameters and "
        f"{size['share_of_bytes']:.0%} of its bytes, because attention holds "
        f"{whole['attention_share']:.0%} of them. The gain in decoding speed is "
        f"{', '.join(gains)}, median of {decoding['rounds'].iloc[0]} rounds on {where} with "
        f"{machine['threads']} threads; the paper's BERT gained {PUBLISHED[1]} % in batches of 1 "
        f"and {PUBLISHED[64]} % in batches of 64. With the fewest heads, {least['heads']} of "
        f"{whole['heads']}, {least['share_of_parameters']:.0%} of the parameters are left. Cut or "
        f"masked, the logits differ by at most "
        f"{tables['sizes']['relative_difference'].max():.0e} of the largest."
    )
