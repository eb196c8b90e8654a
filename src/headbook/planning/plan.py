"""Estimated cost of a profile's trainings, before any of them starts.

Counted are updates alone: not the subwords before them, nor validation and translation.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from headbook.artefacts.costs import (
    ACCELERATOR,
    SENTENCE,
    Device,
    disk,
    memory,
    work,
    work_of,
)
from headbook.artefacts.encoders import ENCODER
from headbook.artefacts.language import LANGUAGE, LanguageRun
from headbook.artefacts.model import TRAINED, ModelRun
from headbook.artefacts.recipe import SIZES, Run
from headbook.bench.config import BenchConfig
from headbook.bench.contestants import device as kind_of_device
from headbook.bench.speed import PRODUCTS, product
from headbook.chapters.config import Config
from headbook.corpora.registry import Place, place, registry
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training.precision import Precision

SECONDS = 2.0
"""Spent on measuring the matrix rate."""
KEPT, TO_TRAIN, TO_FETCH = "kept", "to train", "to fetch"
NOTES = """\
Hours are of updates with full batches, without validation and translation; `until` adds them up.
Memory and disk are in GB. Memory is that of tensors: on a processor, some 4 GB come on top.\
"""


@dataclass(frozen=True)
class Training:
    """One model of a profile and what its training takes."""

    run: Run
    operations: float
    seconds: float
    memory: int  # bytes, at most at one time
    disk: int  # bytes, with what a killed training resumes from
    state: str

    @property
    def seconds_left(self) -> float:
        return 0.0 if self.state == KEPT else self.seconds


@dataclass(frozen=True)
class Stage:
    """Runs of one sort that follow the trainings."""

    name: str
    runs: int
    operations: float
    seconds: float


def trainings(runs: Iterable[Run], device: Device, store: Store) -> list[Training]:
    """A row per model, in their order. No corpus is read."""
    kept, rows = _kept(store), []
    for run in runs:
        operations = work(run)
        state = KEPT if plain(run) in kept else _state(run.corpus)
        taken = device.seconds(operations, run.size.width)
        rows.append(Training(run, operations, taken, memory(run), disk(run), state))
    return rows


def _kept(store: Store) -> list[dict[str, Any]]:
    """Configs of the models in the store that were trained on a device of this kind.

    Their keys hold the digest of the corpus too, for which it would have to be read: the same
    config is taken for the same model here.
    """
    here = kind_of_device().type
    stages = (TRAINED, LANGUAGE, ENCODER)
    made = [each for stage in stages for _, each in store.finished(stage)]
    return [each["config"] for each in made if each["policy"]["device"] == here]


def _state(corpus: str) -> str:
    known = registry().get(corpus)
    return TO_FETCH if known is not None and place(known) is Place.ABSENT else TO_TRAIN


def stages(config: Config, device: Device) -> list[Stage]:
    """The λ sweeps and their controls, as many as there can be.

    A frozen decoder saves a sixth, and heads that are left out some more: neither is counted.
    """
    pruning = config.preset.pruning

    def further(base: ModelRun) -> float:
        return work_of(base, pruning.training)

    def again(base: ModelRun) -> float:
        return work_of(base, base.training) + further(base)

    found = list(_without_sweeps(config, device))
    penalties = len(pruning.penalties)
    for alone, bases in ((True, config.encoder_pruned_models()), (False, config.pruned_models())):
        gated, dear = "the encoder" if alone else "everything", config.scratch_models(alone=alone)
        found += [
            _stage(f"λ sweep, gates in {gated}", penalties, bases, further, device),
            _stage("  whole model, trained as long", 1, bases, further, device),
            _stage("  random heads", min(pruning.controls, penalties), bases, further, device),
            _stage("  from scratch", min(pruning.scratch, penalties), dear, again, device),
        ]
    return [stage for stage in found if stage.runs]


def _without_sweeps(config: Config, device: Device) -> Iterator[Stage]:
    """Page 27's models; language models of text, and of the first model's source side."""
    if config.preset.specialising is not None:
        changed = [run for _, run in config.specialising().runs()]
        yield _stage("what specialising needs", 1, changed, work, device)
    language = (*config.language_models(), *config.variants())
    yield _stage("language models", 1, language, work, device)
    sides = config.encoder_models()
    yield _stage("language models of source text", 1, sides, work, device)


def _stage(
    name: str,
    each: int,
    bases: Sequence[Run],
    cost: Callable[..., float],
    device: Device,
) -> Stage:
    """So many runs of each of the models."""
    works = [each * cost(base) for base in bases]
    taken = [device.seconds(one, base.size.width) for one, base in zip(works, bases, strict=True)]
    return Stage(name, each * len(bases), sum(works), sum(taken))


def machine_rate(precision: Precision) -> float:
    """GFLOP/s of this machine in large matrix products, the best of SECONDS of them."""
    side = 8192 if kind_of_device().type == "cuda" else 1024
    timed = product(BenchConfig(precision=precision, product=side))
    timed(0)  # warms up
    best, began = math.inf, time.monotonic()
    with tqdm(desc="measuring matrix products", unit="round", leave=False) as bar:
        while not bar.n or time.monotonic() - began < SECONDS:
            best = min(best, timed(bar.n))
            bar.update()
    return 2e-9 * PRODUCTS * side**3 / best


def lines(
    config: Config,
    share: float | None = None,
    rate: float | None = None,
    store: Store | None = None,
) -> Iterator[str]:
    """The plan as it is printed; this machine's rate is measured where none is given.

    UserError for a share or rate that cannot be one, before anything is measured.
    """
    runs = config.emerging_models()
    device = _device(share, rate, config.one_model())
    yield from _trainings(f"Profile {config.profile}", runs, device, rate, store)
    yield from ("", _stages_table(stages(config, device)), "", NOTES)


def named_lines(
    runs: Sequence[Run],
    share: float | None = None,
    rate: float | None = None,
    store: Store | None = None,
) -> Iterator[str]:
    """The plan of models that were named, nothing that follows them."""
    device = _device(share, rate, runs[0])
    yield from _trainings("As named", runs, device, rate, store)
    yield from ("", NOTES)


def _device(share: float | None, rate: float | None, first: Run) -> Device:
    device = Device(1.0 if rate is None else rate, torch.get_num_threads(), share)
    if rate is not None:
        return device
    return replace(device, rate=machine_rate(first.training.precision))


def _trainings(
    title: str, runs: Sequence[Run], device: Device, rate: float | None, store: Store | None
) -> Iterator[str]:
    told = "measured now" if rate is None else "as given"
    yield f"{title}: {device.rate:,.0f} GFLOP/s in matrix products ({told}),"
    yield f"and of these in training the column `share` ({_source(device)})."
    rows = trainings(runs, device, store or Store.default())
    yield from ("", _trainings_table(rows, device), "", _in_all(rows), _order(rows))


def _source(device: Device) -> str:
    if device.share is not None:
        return "as given"
    if device.rate > ACCELERATOR:
        return "an aim for accelerators, not measured"
    return f"as measured on processors, threads: {device.threads}"


def _trainings_table(rows: Sequence[Training], device: Device) -> str:
    names, known = {size: name for name, size in SIZES.items()}, registry()
    until = accumulate(row.seconds_left for row in rows)
    return _table(
        {
            "corpus": f"{row.run.corpus:<14}",
            "size": names.get(row.run.size, f"w{row.run.size.width}"),
            "seed": row.run.training.seed,
            "updates": f"{row.run.training.updates:,}",
            "epochs": _epochs(row.run, known[row.run.corpus].pairs),
            "TFLOP": _tera(row.operations),
            "share": f"{device.share_at(row.run.size.width):.0%}",
            "hours": _hours(row.seconds),
            "until": _hours(end),
            "memory": f"{row.memory / 1e9:.1f}",
            "disk": f"{row.disk / 1e9:.1f}",
            "state": row.state,
        }
        for row, end in zip(rows, until, strict=True)
    )


def _epochs(run: Run, pairs: int) -> str:
    """Of a language model unknown: the registry counts lines, not tokens."""
    if isinstance(run, LanguageRun):
        return "–"
    seen = run.training.updates * run.training.tokens / SENTENCE
    return f"{seen / min(pairs, run.pairs or pairs):,.0f}"


def _table(rows: Iterable[Mapping[str, object]]) -> str:
    """Aligned, each line with its number."""
    frame = pd.DataFrame(list(rows))
    return frame.set_axis(range(1, len(frame) + 1)).to_string()


def _tera(work: float) -> str:
    return f"{work / 1e12:,.0f}" if work >= 1e14 else f"{work / 1e12:.3g}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.2f}"


def _in_all(rows: Sequence[Training]) -> str:
    left = [row for row in rows if row.state != KEPT]
    return (
        f"To come: {len(left)} of {len(rows)} trainings,"
        f" {_tera(sum(row.operations for row in left))} TFLOP,"
        f" {_hours(sum(row.seconds for row in left))} hours one after the other;\n"
        f"at most {max((row.memory for row in left), default=0) / 1e9:.1f} GB of memory and"
        f" {sum(row.disk for row in left) / 1e9:.1f} GB of disk."
    )


def _order(rows: Sequence[Training]) -> str:
    """Sort key: the trainings that come first."""
    names = [row.run.corpus for row in rows]
    covered = max(map(names.index, names)) + 1
    return f"They come in this order: lines 1 to {covered} give every corpus a model."


def _stages_table(found: Sequence[Stage]) -> str:
    return _table(
        {
            "what follows": f"{stage.name:<32}",
            "runs": f"{stage.runs:,}",
            "TFLOP": _tera(stage.operations),
            "hours": _hours(stage.seconds),
        }
        for stage in found
    )
