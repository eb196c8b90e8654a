"""Page 47: frozen networks with tuned norms on other tasks (Lu et al. 2021; Rothermel et al.)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from headbook.artefacts.new_task import BODY, NEW_TASK, OURS, Start, Tuning, tuned
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, released_claim, stacked
from headbook.claims.gates import NONE
from headbook.corpora.small_tasks import (
    BIT_MEMORY,
    DIGIT_ROWS,
    DIGITS,
    LISTOPS,
    LISTOPS_ROWS,
    XOR,
    task,
)
from headbook.models.new_ends import Trainable
from headbook.runs.store import Store
from headbook.statistics import binomial_interval, over_seeds
from headbook.types import UserError

NUMBER = 47
TITLE = "Is tuning the norms enough?"
WORK = "lu2021"
KEYS = ("task", "start", "trainable", "rate", "seed", "shuffled", "updates")

TASKS = (DIGITS, XOR, LISTOPS, BIT_MEMORY)
IN_BOTH = (LISTOPS, DIGITS)
"""Tasks that both works have."""
BODIES = (BODY, OURS)
UNTUNED = 1e-3
"""Lu et al.'s one learning rate."""
RATES = (UNTUNED, 3e-4, 3e-3, 1e-2)
RATES_OF_ALL = (UNTUNED, 3e-4, 1e-4)
"""Swept ones of frozen networks, and of those that train all weights, which want lower ones."""
BY_RATE = {f"{rate:g}": rate for rate in (*RATES, *RATES_OF_ALL)}
SEEDS = 3
TESTED = {DIGITS: DIGIT_ROWS[-1], LISTOPS: LISTOPS_ROWS[-1]}
"""Examples of the test split, of tasks with one answer per example."""
UPDATES = {DIGITS: 250, XOR: 500, LISTOPS: 250, BIT_MEMORY: 350}
LONGER = 2500
"""Updates of further networks whose norms are tuned on XOR, at the one rate and at the best."""
FROZEN, FROZEN_REDRAWN = (Start.TRAINED, Trainable.POSITIONS), (Start.REDRAWN, Trainable.POSITIONS)
SCRATCH, FINE_TUNED = (Start.SCRATCH, Trainable.ALL), (Start.TRAINED, Trainable.ALL)
NORMS = (Start.TRAINED, Trainable.NORMS)
OF_OURS = (FROZEN, FROZEN_REDRAWN)
"""Those whose body is our encoder, too."""
NETWORKS = {
    f"{start}, {part}": (start, part)
    for start, part in (
        (Start.TRAINED, Trainable.OUTPUT), FROZEN, FROZEN_REDRAWN, SCRATCH, FINE_TUNED, NORMS,
        (Start.TRAINED, Trainable.INPUT), (Start.REDRAWN, Trainable.OUTPUT),
        (Start.REDRAWN, Trainable.NORMS),
    )
}  # fmt: skip
"""Sources of weights and tuned parts by name ("redrawn, + norms"), each at every rate."""
REPEATED = {
    DIGITS: (FROZEN, FROZEN_REDRAWN, SCRATCH),
    XOR: (),
    LISTOPS: (FROZEN, FROZEN_REDRAWN, SCRATCH),
    BIT_MEMORY: (FROZEN, FROZEN_REDRAWN, SCRATCH),
}
"""With three seeds at the one rate and at the best one; the others with one, as time was short."""
LABELS = {FROZEN: "frozen", FROZEN_REDRAWN: "frozen, redrawn", SCRATCH: "from scratch",
          FINE_TUNED: "fine-tuned"}  # fmt: skip
ONE_RATE, BEST_RATE = "one rate, 0.001", "best rate"
UNFINISHED = "converged: its loss fell to the end of its training (page 26)"

PAPER = {
    (ONE_RATE, XOR): {FROZEN: 1.0, FROZEN_REDRAWN: 1.0, SCRATCH: 1.0},
    (ONE_RATE, BIT_MEMORY): {FROZEN: 1.0, FROZEN_REDRAWN: 0.516, SCRATCH: 1.0},
    (ONE_RATE, LISTOPS): {FROZEN: 0.384, FROZEN_REDRAWN: 0.343, SCRATCH: 0.380},
    (ONE_RATE, DIGITS): {FROZEN: 0.980, FROZEN_REDRAWN: 0.917, SCRATCH: 0.991},
    (BEST_RATE, LISTOPS): {FROZEN: 0.461, FROZEN_REDRAWN: 0.389, SCRATCH: 0.576,
                           FINE_TUNED: 0.563},
    (BEST_RATE, DIGITS): {FROZEN: 0.985, FROZEN_REDRAWN: 0.980, SCRATCH: 0.987, FINE_TUNED: 0.990},
}  # fmt: skip
"""Lu et al. at one rate, Rothermel et al. at swept ones; digits are their MNIST.

Of bit memory Lu et al. count shown bits as answers, half of all: of hidden ones, less is right.
"""
PAPER_SETS = {
    XOR: (0.56, 0.98, 0.98, 1.00),
    LISTOPS: (0.15, 0.36, 0.36, 0.38),
    DIGITS: (0.23, 0.96, 0.98, 0.98),
    BIT_MEMORY: (0.52, 0.88, 1.0, 1.0),
}
"""Lu et al., pretrained: what is trained grows from the output to the positions."""


@dataclass(frozen=True)
class Parameters:
    """The first so many cells of these tasks' sweeps are trained, or found in the store; 0 is all.

    With `networks` or `rates` the cells of these alone, which adds them to published ones.
    UserError for a task, body, network or rate that is none of this page's, and a negative number.
    """

    tasks: tuple[str, ...] = (DIGITS,)
    bodies: tuple[str, ...] = (BODY,)
    networks: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    cells: int = 2

    def __post_init__(self) -> None:
        choices = {"tasks": TASKS, "bodies": BODIES, "networks": NETWORKS,
                   "rates": BY_RATE}  # fmt: skip
        for name, known in choices.items():
            if unknown := [each for each in getattr(self, name) if each not in known]:
                raise UserError(f"{name}: {unknown[0]!r} is none; choose from {', '.join(known)}")
        if self.cells < 0:
            raise UserError(
                f"{self.cells} cells cannot be trained; give their number, or 0 for all"
            )


def sweep(name: str, body: str = BODY) -> Iterator[Tuning]:
    """Every cell of a task with the first seed; those at the one rate come first."""
    pairs = [pair for pair in NETWORKS.values() if body == BODY or pair in OF_OURS]
    for one in (True, False):
        for pair in pairs:
            for rate in RATES_OF_ALL if pair[1] is Trainable.ALL else RATES:
                if (rate == UNTUNED) is one:
                    yield Tuning(name, *pair, rate, updates=UPDATES[name])


def selected(parameters: Parameters, body: str = BODY) -> list[Tuning]:
    """Cells of the sweeps that are asked for; without `networks` and `rates` of all."""
    networks = [NETWORKS[each] for each in parameters.networks or NETWORKS]
    rates = [BY_RATE[each] for each in parameters.rates or BY_RATE]
    found = [cell for each in parameters.tasks for cell in sweep(each, body)
             if (cell.start, cell.trainable) in networks and cell.rate in rates]  # fmt: skip
    return found[: parameters.cells or None]


def further(name: str, rows: pd.DataFrame) -> Iterator[Tuning]:
    """The other seeds at the one and the chosen rate, and controls at the chosen one: shuffled
    labels, and on XOR many more updates of the norms."""
    best = chosen(rows).set_index(["task", "start", "trainable"])["rate"]
    cell = Tuning(name, *FROZEN, float(best[name, *FROZEN]), updates=UPDATES[name])
    yield replace(cell, shuffled=True)
    if name == XOR:
        for rate in dict.fromkeys((UNTUNED, float(best[name, *NORMS]))):
            yield Tuning(name, *NORMS, rate, updates=LONGER)
    yield from repeated(name, rows, REPEATED[name])


def repeated(name: str, rows: pd.DataFrame, pairs: Iterable[tuple[Start, Trainable]] = OF_OURS
             ) -> Iterator[Tuning]:  # fmt: skip
    """These networks with the other seeds, at the one and the chosen rate."""
    best = chosen(rows).set_index(["task", "start", "trainable"])["rate"]
    for pair in pairs:
        for rate in dict.fromkeys((UNTUNED, float(best[name, *pair]))):
            cell = Tuning(name, *pair, rate, updates=UPDATES[name])
            yield from (replace(cell, seed=seed) for seed in range(1, SEEDS))


def compute(parameters: Parameters, store: Store) -> Tables:
    """One row per cell: of the released body `cells`, of ours `ours`; and claims, where all of them
    were trained."""
    tables: Tables = {}
    for body, name in ((BODY, "cells"), (OURS, "ours")):
        if body in parameters.bodies:
            tables[name] = _rows(selected(parameters, body), store, body)
    if parameters.cells or parameters.networks or parameters.rates:
        return tables
    found = []
    if "cells" in tables:
        others = [_rows(further(name, tables["cells"]), store) for name in parameters.tasks]
        tables["cells"] = pd.concat([tables["cells"], *others], ignore_index=True)
        found.append(claims(tables["cells"]))
    if "ours" in tables:
        others = [_rows(repeated(name, tables["ours"]), store, OURS) for name in parameters.tasks]
        tables["ours"] = pd.concat([tables["ours"], *others], ignore_index=True)
        found.append(claims_of_ours(tables["ours"]))
    return {**tables, "claims": stacked(found)}


def _tasks(rows: pd.DataFrame) -> list[str]:
    return [name for name in TASKS if (rows["task"] == name).any()]


def _rows(cells: Iterable[Tuning], store: Store, body: str = BODY) -> pd.DataFrame:
    found = []
    for cell in cells:
        outcome = asdict(tuned(cell, store, body))
        found.append({**asdict(cell), **outcome, "majority": task(cell.task).majority})
    return pd.DataFrame(found)


def _planned(rows: pd.DataFrame) -> pd.DataFrame:
    """Without the controls."""
    return rows[~rows["shuffled"].astype(bool) & (rows["updates"] < LONGER)]


def chosen(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each task, start and set the row of the first seed with the best validation accuracy.

    Of equal ones the one with the lowest validation loss.
    """
    own = _planned(rows).query("seed == 0")
    ordered = own.sort_values(["validation", "loss"], ascending=[False, True], kind="stable")
    return ordered.drop_duplicates(["task", "start", "trainable"]).sort_index()


def settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows at the one rate and at the chosen ones, by `setting`; a row may stand under both."""
    own = _planned(rows)
    best = chosen(rows)[["task", "start", "trainable", "rate"]]
    return pd.concat([own[own["rate"] == UNTUNED].assign(setting=ONE_RATE),
                      own.merge(best).assign(setting=BEST_RATE)], ignore_index=True)  # fmt: skip


def compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy over seeds by task, method and setting, and the works' beside."""
    groups = settings(rows).groupby(["task", "start", "trainable", "setting"])
    found = []
    for name in _tasks(rows):
        for pair, label in LABELS.items():
            for setting in (ONE_RATE, BEST_RATE):
                own = groups.get_group((name, *map(str, pair), setting))
                seeds = over_seeds(own["test"])
                found.append({"task": name, "method": label, "row": f"{name}: {label}",
                              "setting": setting, "value": seeds.mean,
                              "low": np.clip(seeds.low, 0, 1), "high": np.clip(seeds.high, 0, 1),
                              "rate": own["rate"].iloc[0], "seeds": seeds.count,
                              "paper": PAPER.get((setting, name), {}).get(pair)})  # fmt: skip
    return pd.DataFrame(found).astype({"paper": float})


def sets_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of the first seed in per cent at the one rate, / at the best one where there are
    others; a column per set that is trained."""
    first = settings(rows[rows["seed"] == 0])
    wide = first.pivot(index=["task", "start", "trainable"], columns="setting", values="test")
    one, best = ((100 * wide[each]).map("{:.0f}".format) for each in (ONE_RATE, BEST_RATE))
    rates = _planned(rows).groupby(["task", "start", "trainable"])["rate"].nunique()
    shown = (one + " / " + best).where(rates > 1, one)
    table = shown.unstack().reindex(columns=list(map(str, Trainable)))
    order = [(name, str(start)) for name in _tasks(rows) for start in Start]
    table = table.loc[order].reset_index().rename_axis(columns=None)
    paper = []
    for name in _tasks(rows):
        values = zip(Trainable, PAPER_SETS[name], strict=False)  # the last set is not theirs
        cells = {str(each): f"{100 * value:.0f}" for each, value in values}
        paper.append({"task": name, "start": "Lu et al., GPT-2", **cells})
    joined = pd.concat([table, pd.DataFrame(paper)]).fillna("")
    return joined.sort_values("task", key=lambda names: names.map(TASKS.index), kind="stable")


def bodies_table(cells: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of frozen networks in per cent at the one rate, / at the best one, means over seeds
    where there are several; a row per task and body."""
    found = []
    for name in _tasks(ours):
        for body, rows in (("MiniLM", cells), ("ours", ours)):
            of = _accuracy(rows)
            shown = {LABELS[pair]: " / ".join(f"{100 * of(setting, name, pair).mean():.0f}"
                                              for setting in (ONE_RATE, BEST_RATE))
                     for pair in OF_OURS}  # fmt: skip
            found.append({"task": name, "body": body, **shown})
    return pd.DataFrame(found)


def rates_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of the first seed in per cent by rate; * at the rate that validation chose."""
    own = _planned(rows).query("seed == 0")
    best = set(chosen(rows).index)
    marked = own.assign(shown=[f"{100 * row.test:.0f}" + ("*" if row.Index in best else "")
                               for row in own.itertuples()])  # fmt: skip
    index = ["task", "start", "trainable"]
    wide = marked.pivot(index=index, columns="rate", values="shown").reset_index()
    kinds = list(map(str, Trainable))
    order = {"task": TASKS.index, "start": list(map(str, Start)).index, "trainable": kinds.index}
    wide = wide.sort_values(index, key=lambda names: names.map(order[names.name]))
    named = {rate: name for name, rate in BY_RATE.items()}
    return wide.rename(columns=named).rename_axis(columns=None)


def claims(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per claim, task and seed; tasks stand where models do elsewhere."""
    of, standing = _accuracy(rows), {}
    found = list(_lifts(rows))
    for name in _tasks(rows):
        one, best = (of(each, name, FROZEN) - of(each, name, SCRATCH)
                     for each in (ONE_RATE, BEST_RATE))  # fmt: skip
        found += _by_seed("frozen-matches-full", name, one)
        standing[name] = one - best
        norms = of(BEST_RATE, name, NORMS)
        longer = rows[(rows["task"] == name) & (rows["updates"] == LONGER)]
        if len(longer):
            norms = longer.sort_values("validation").set_index("seed")["test"].tail(1)
        enough = norms - of(BEST_RATE, name, FINE_TUNED)
        found += _by_seed("frozen-norms-suffice", name, enough)
        if name in (DIGITS, LISTOPS):
            found += _by_seed("frozen-less-when-tuned", name, -best)
        found += _over_redrawn(rows, name)
    if standing.keys() >= {*IN_BOTH}:
        mean = sum(standing[name] for name in IN_BOTH) / len(IN_BOTH)
        found += _by_seed("frozen-rate-makes-claim", " and ".join(IN_BOTH), mean)
    return claims_table(found)


def claims_of_ours(rows: pd.DataFrame) -> pd.DataFrame:
    """Whether our encoder's training helps when it is frozen; it has not converged."""
    found = [row for name in _tasks(rows) for row in _over_redrawn(rows, name, UNFINISHED)]
    return claims_table(
        row | {"model": f"our encoder, {row['model']}", "corpus": "mixture-fr"} for row in found
    )


def _over_redrawn(rows: pd.DataFrame, name: str, closed: str = NONE) -> list[dict[str, object]]:
    of, found = _accuracy(rows), []
    for setting in (ONE_RATE, BEST_RATE) if name != XOR else ():
        ahead = of(setting, name, FROZEN) - of(setting, name, FROZEN_REDRAWN)
        found += _by_seed("frozen-trained-over-redrawn", f"{name}, {setting}", ahead, closed)
    return found


def _accuracy(rows: pd.DataFrame) -> Callable[[str, str, tuple[Start, Trainable]], pd.Series]:
    """Test accuracy by seed of a setting, task and network."""
    at = settings(rows).set_index(["setting", "task", "start", "trainable", "seed"])["test"]
    at = at.sort_index()
    return lambda setting, name, pair: at[setting, name, str(pair[0]), str(pair[1])]


def _lifts(rows: pd.DataFrame) -> Iterator[dict[str, object]]:
    """Tuned norms on XOR at the one rate, of each start the network with the most updates."""
    own = rows[(rows["task"] == XOR) & (rows["trainable"] == Trainable.NORMS)
               & (rows["rate"] == UNTUNED)].sort_values("updates")  # fmt: skip
    for start, each in own.groupby("start", sort=False):
        last = each[each["updates"] == each["updates"].max()]
        young = "converged: stopped early" if last["validation"].max() < 1 else NONE
        values = last.set_index("seed")["test"]
        yield from _by_seed("frozen-norms-lift-xor", f"{XOR}, {start}", values, young)


def _by_seed(
    claim: str, model: str, values: pd.Series, closed: str = NONE
) -> list[dict[str, object]]:
    return [released_claim(claim, model, float(value), closed=closed) | {"seed": seed}
            for seed, value in values.dropna().items()]  # fmt: skip


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, in per cent: means over seeds, their least and their most."""
    rows = tables["cells"]
    found: Facts = {"seeds": str(SEEDS), "layers": str(int(rows["layers"].iloc[0]))}
    short = {ONE_RATE: "one", BEST_RATE: "best"}
    for body, own in (("", rows), ("ours ", tables.get("ours", rows.iloc[:0]))):
        at = settings(own).groupby(["task", "start", "trainable", "setting"])["test"]
        for (name, start, each, setting), values in at:
            key = words.key(f"{body}{name}", start, each, short[setting])
            found[key] = words.percent(values.mean())
            found |= {f"{key}_least": words.percent(values.min()),
                      f"{key}_most": words.percent(values.max()),
                      f"{key}_range": words.percents(values)}  # fmt: skip
            if len(values) == 1 and name in TESTED:
                found[f"{key}_estimate"] = _over_examples(values.iloc[0], TESTED[name])
    for (setting, name), known in PAPER.items():
        for pair, value in known.items():
            found[words.key("paper", name, *pair, short[setting])] = words.percent(value)
    for name, values in PAPER_SETS.items():
        for each, value in zip(Trainable, values, strict=False):
            found[words.key("paper", name, each)] = words.percent(value)
    for row in rows[rows["updates"] == LONGER].itertuples():
        rate = "one" if row.rate == UNTUNED else "best"
        found[f"longer_{rate}"] = words.percent(row.test)
        found[f"longer_{rate}_steps"] = words.count(row.steps)
    shuffled = rows[rows["shuffled"].astype(bool)].set_index("task")
    for name, row in rows.drop_duplicates("task").set_index("task").iterrows():
        found[words.key(name, "majority")] = words.percent(row["majority"])
        if name in shuffled.index:
            found[words.key(name, "shuffled")] = words.percent(shuffled.loc[name, "test"])
    for each, value in rows.drop_duplicates("trainable").set_index("trainable")["tuned"].items():
        found[words.key("share", each)] = f"{100 * value:.1f}\N{NO-BREAK SPACE}%"
    return found


def arithmetic(record: Mapping[str, Any]) -> set[str]:
    """Of all products of a published record's trainings: bfloat16, float32, or both.

    Trainings whose hardware says nothing of bfloat16 are older than the way out of a processor
    that lacks it: they had it emulated.
    """
    parts = [record, *record.get("added", ())]
    machines = [each["hardware"] for part in parts for each in part["runs"]
                if each["ingredients"]["stage"]["name"] == NEW_TASK.name]  # fmt: skip
    return {"bfloat16" if each.get("bfloat16", True) else "float32" for each in machines}


def _over_examples(accuracy: float, examples: int) -> str:
    """The accuracy of one training with its exact interval over the examples of the test split."""
    ends = binomial_interval(round(accuracy * examples), examples)
    return words.estimate(accuracy, *ends)
