"""Page 24: heads cut out of a model, its speed and its size (Michel et al. 2019, Table 4)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.pruned import EVERYTHING
from headbook.artefacts.pruning_orders import Order
from headbook.artefacts.speed import Speed, SpeedRun, Task, speed
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.results import published
from headbook.chapters.sixteen._curves import EVERY
from headbook.chapters.sweeps import shuffled, swept
from headbook.chapters.tables import claim_row, model_labels, of_ours, of_small
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.gates import RELEASED
from headbook.claims.ledger import load as ledger
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.types import HeadId

NUMBER = 24
TITLE = "What does pruning buy?"
WORK = "michel2019"
KEYS = ("model", "task", "batch", "mask")

SHARES = (0.0, 0.25, 0.5, 0.75)
"""Of every block's heads, rounded down to whole heads."""
HALF = 0.5
EVEN, GATES = "every block alike", "as the gates chose"
ROUNDS, TOKENS = 15, 20
PAPER = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
"""Table 4: per cent more examples a second by batch size, BERT without half of its heads."""
RESAMPLES = 2000
NAMES = {Task.DECODING: "greedy decoding", Task.FORWARD: "one forward pass"}

Masks = dict[tuple[HeadId, ...], str]
"""Sets of heads to cut out, with how they were chosen."""


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """At a profile, speed and size of its first examined model without sets of heads."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Speed, size and equality with the masked model, of the first examined model."""
    model = trained(config.examined_models()[0], store)
    chosen = _masks(model, config, store)
    few = config.preset.pruning.translated  # a profile for trying out has few of everything
    run = SpeedRun(
        tuple(chosen), tokens=min(TOKENS, few), rounds=int(np.clip(few // 20, 2, ROUNDS))
    )
    timed = speed(model, run, store)
    sizes = _sizes(timed, list(chosen.values())).assign(model=model_labels(model)["model"])
    return {
        "sizes": sizes,
        "speed": _speed(timed, sizes),
        "claims": pd.DataFrame(_claims(model_labels(model), timed, _half(model, run.masks))),
        "machine": pd.DataFrame([{**timed.hardware, "model": model_labels(model)["model"]}]),
    }


def _masks(model: TrainedModel, config: Config, store: Store) -> Masks:
    """Fixed shares of every block, and the heads that the sweep of all attentions closed."""
    found: Masks = {_evenly(model, share): EVEN for share in SHARES}
    for point in swept(model, EVERYTHING, config, store):
        found.setdefault(tuple(sorted(point.closed)), GATES)
    return found


def _evenly(model: TrainedModel, share: float) -> tuple[HeadId, ...]:
    """This share of every block's heads, at random: which they are makes no model faster."""
    heads = model.run.size.heads
    first = [each for each in all_heads(model.untrained()) if each.head < int(share * heads)]
    return tuple(sorted(shuffled(first, heads, model.run.training.seed)))


def _half(model: TrainedModel, masks: Sequence[tuple[HeadId, ...]]) -> int:
    return list(masks).index(_evenly(model, HALF))


def _sizes(timed: Speed, names: Sequence[str]) -> pd.DataFrame:
    """One row per mask: heads pruned, and parameters and bytes left."""
    sizes = timed.sizes.assign(chosen=list(names))
    whole = sizes.iloc[0]
    return sizes.assign(
        share_pruned=1 - sizes["heads"] / whole["heads"],
        share_of_parameters=sizes["parameters"] / whole["parameters"],
        share_of_bytes=sizes["bytes"] / whole["bytes"],
        relative_difference=sizes["largest_difference"] / sizes["largest_logit"],
        attention_share=sizes["attention_parameters"] / sizes["parameters"],
    )


def _gains(timed: Speed, task: str, batch: int, mask: int) -> np.ndarray:
    """By how much the model is faster than the whole one, round by round."""
    rows = timed.times.query("task == @task and batch == @batch")
    seconds = rows.pivot(index="round", columns="mask", values="seconds")
    return (seconds[0] / seconds[mask] - 1).to_numpy()


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """The median over the rounds and the 95 % interval of a bootstrap over them."""
    drawn = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    return (float(np.median(values)), *percentile_interval(np.median(drawn, axis=1)))


def _speed(timed: Speed, sizes: pd.DataFrame) -> pd.DataFrame:
    """One row per task, batch size and mask: throughput, and the gain with its interval."""
    rows = []
    for (task, batch, mask), times in timed.times.groupby(["task", "batch", "mask"], sort=False):
        gain, low, high = _interval(_gains(timed, task, batch, mask))
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


def _claims(labels: dict[str, object], timed: Speed, half: int) -> Iterator[dict[str, object]]:
    largest, smallest = (
        _gains(timed, Task.DECODING, pick(timed.run.batches), half) for pick in (max, min)
    )
    yield claim_row("michel-t4-faster-in-large-batches", labels, *_interval(largest))
    one_at_a_time = float(np.median(smallest))
    yield claim_row(
        "michel-t4-batch-size-matters", labels, *_interval(largest - smallest), one_at_a_time
    )
    apart = timed.sizes.iloc[half]
    same = apart["largest_difference"] / apart["largest_logit"]
    yield claim_row("michel-s4-cut-equals-masked", labels, float(same))
    whole = timed.sizes.iloc[0]
    share = whole["attention_parameters"] / whole["parameters"]
    yield claim_row("michel-s4-attention-third-of-parameters", labels, float(share))


def _half_of(tables: Tables) -> int:
    """The mask that comes nearest to half of every block's heads from below."""
    even = tables["sizes"].query("chosen == @EVEN and share_pruned <= @HALF")
    return int(even.loc[even["share_pruned"].idxmax(), "mask"])


def halved(tables: Tables) -> pd.DataFrame:
    """Gain in speed with half of every block's heads cut out, one row per task and batch size.

    The paper's BERT stands in the rows of the forward pass, as it was timed on classification.
    """
    rows = tables["speed"][tables["speed"]["mask"] == _half_of(tables)]
    gains = {"value": "gain_percent", "low": "low_percent", "high": "high_percent"}
    frame = pd.DataFrame({name: rows[column] for name, column in gains.items()})
    paper = rows["batch"].map(PAPER).where(rows["task"] == Task.FORWARD)
    names = (rows["batch"].astype(str) + " sentences").replace("1 sentences", "1 sentence")
    return frame.assign(task=rows["task"].map(NAMES), batch=names, paper=paper,
                        size=rows["batch"]).sort_values("size", kind="stable")  # fmt: skip


def by_share(tables: Tables, task: str = Task.DECODING) -> pd.DataFrame:
    """Gain in speed over the share of every block's heads cut out, one row per batch size."""
    rows = tables["speed"].query("task == @task and chosen == @EVEN")
    return pd.DataFrame(
        {"share": 100 * rows["share_pruned"], "value": rows["gain_percent"],
         "low": rows["low_percent"], "high": rows["high_percent"],
         "batch": "batches of " + rows["batch"].astype(str)}
    )  # fmt: skip


def sizes(tables: Tables) -> pd.DataFrame:
    """One row per set of heads cut out: size, and gain in decoding in the largest batches."""
    largest = tables["speed"]["batch"].max()
    gains = tables["speed"].query("task == 'decoding' and batch == @largest").set_index("mask")
    rows = tables["sizes"].sort_values("heads", ascending=False)
    held = rows.get("cached_bytes", pd.Series(np.nan, rows.index))  # timed later than the rest
    found = pd.DataFrame(
        {"heads": rows["heads"], "chosen": rows["chosen"],
         "parameters": rows["parameters"].map(words.count),
         "share of all": rows["share_of_parameters"].map(words.percent),
         "MiB on disk": (rows["bytes"] / 2**20).map("{:.1f}".format),
         f"gain, batches of {largest}":
             rows["mask"].map(gains["gain_percent"] / 100).map(words.percent),
         "MiB of keys and values": (held / 2**20).map("{:.1f}".format)}
    )  # fmt: skip
    return found if held.notna().all() else found.drop(columns="MiB of keys and values")


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the long training where it was timed, and of the small model."""
    if tables["sizes"]["model"].nunique() > 1:
        small = facts(of_small(tables))
        named = ("model", "attention", "half_parameters", "decoding_1", "decoding_64")
        return facts(of_ours(tables)) | {f"small_{name}": small[name] for name in named} | _cost()
    rows, machine = tables["sizes"].set_index("mask"), tables["machine"].iloc[0]
    whole, half = rows.loc[0], rows.loc[_half_of(tables)]
    fewest = rows.loc[rows["heads"].idxmin()]
    found: Facts = {
        "model": words.model(whole["model"]),
        "heads": str(whole["heads"]),
        "half_heads": str(half["heads"]),
        "half_parameters": words.percent(half["share_of_parameters"]),
        "attention": words.percent(whole["attention_share"]),
        "attention_paper": words.percent(_paper("michel-s4-attention-third-of-parameters")),
        "fewest": str(fewest["heads"]),
        "fewest_parameters": words.percent(fewest["share_of_parameters"]),
        "machine": str(machine["gpu"] if isinstance(machine["gpu"], str) else machine["processor"]),
        "threads": str(machine["threads"]),
        "rounds": str(tables["speed"]["rounds"].iloc[0]),
    }
    found |= {f"paper_{batch}": f"{gain}\N{NO-BREAK SPACE}%" for batch, gain in PAPER.items()}
    speed = tables["speed"].set_index(["mask", "task", "batch"]).sort_index()
    for task in Task:
        for batch, row in speed.loc[(half.name, task)].iterrows():
            gains = (row[f"{name}_percent"] / 100 for name in ("gain", "low", "high"))
            found[f"{task}_{batch}"] = words.estimate(*gains)
        largest = speed.loc[(fewest.name, task, max(PAPER)), "gain_percent"]
        found[f"fewest_{task}"] = words.percent(largest / 100)
    return found


def _cost() -> Facts:
    """BLEU of our long training with half of its heads by importance, from page 22."""
    rows = published("22_pruning_by_importance", RELEASED).tables["released"]
    keys = rows.set_index(["model", "scope", "order", "level"])
    half = keys.loc[(words.OURS, EVERY, str(Order.POSITION), 0.5)]
    return {"half_left": f"{half['bleu']:.1f}", "half_whole": f"{half['bleu'] / half['kept']:.1f}"}


def _paper(claim: str) -> float:
    return ledger().claim(claim).paper[0].values[0]
