"""Page 48: the cost of length (Longformer, BigBird, Linformer and others side by side)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headbook.artefacts.lengths import (
    BACK,
    FEEDING,
    FORWARD,
    LONGEST,
    MASKED,
    WIDTH,
    LengthRun,
    memory,
    timed,
)
from headbook.artefacts.nested import NestedRun, solved, texts
from headbook.artefacts.retrieval import RetrievalRun, retrieved
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import NONE
from headbook.corpora.retrieval import CHANCE
from headbook.models.attention import Attention, AttentionPath
from headbook.models.mixing import Mixing, Sizes, mix
from headbook.models.sparse import Sparse, pairs
from headbook.runs.store import Store
from headbook.statistics import Summary, over_seeds
from headbook.types import UserError

NUMBER = 48
TITLE = "What does length cost?"
WORK = "beltagy2020"
KEYS = ("kind", "length", "direction", "asks", "seed")

LONG = 1024
"""Slopes are fitted from this length on."""
SQUARE = (Mixing.FULL, Mixing.FUSED)
LINEAR = tuple(each for each in Mixing if each not in SQUARE)
TASK = Sizes(length=64, window=8, block=4, tokens=2, drawn=1, step=4, keys=16)
LAYERS = 2
NEAR = LAYERS * TASK.window // 2
"""Reach of two layers of windows."""
TRAINED = (Mixing.FULL, Mixing.LINFORMER, Mixing.LINEAR, Mixing.LSTM, Mixing.WINDOW, Mixing.GLOBAL,
           Mixing.RANDOM, Mixing.BIGBIRD)  # fmt: skip
REPAIRED = (Mixing.GLOBAL, Mixing.RANDOM, Mixing.BIGBIRD)
LISTS = Sizes(length=32, window=8, block=4, tokens=2, drawn=1, step=4, keys=8)
SOLVING = (Mixing.FULL, Mixing.LINFORMER, Mixing.LINEAR, Mixing.LSTM, Mixing.WINDOW, Mixing.DILATED,
           Mixing.GLOBAL, Mixing.BIGBIRD)  # fmt: skip
KEEPING = (Mixing.GLOBAL, Mixing.BIGBIRD, Mixing.LINFORMER)
FIRST, LAST = "first token", "last token"
LEARNED = 0.9
"""An encoder that finds fewer of the near values has not learned the task, whatever its reach."""
UNTRAINED = "converged: has not learned to find values even nearby"
KNOWN = 0.05
"""Full attention that is not so far above the best guess has not learned nested lists."""
UNKNOWN = "converged: full attention has not learned nested lists"
PAPER_LISTS = {Mixing.FULL: 0.3637, Mixing.WINDOW: 0.1582, Mixing.LINEAR: 0.1613,
               Mixing.LINFORMER: 0.3570}  # fmt: skip
"""Tay et al., lists of up to 2,000 tokens; windows are their local attention."""
SHOWN = (Mixing.LINFORMER, Mixing.LINEAR, Mixing.WINDOW, Mixing.BIGBIRD, Mixing.FUSED)
PAPER_SPEED, PAPER_MEMORY = {512: 1.5, 4096: 3.4}, {512: 1.7, 4096: 14}
"""Wang et al., table 3, 128 keys: a whole model on a GPU, over full attention."""


@dataclass(frozen=True)
class Parameters:
    """The longest text whose memory is measured, rounds of timing and seeds trained (0: none).

    `seeds` are those of retrieval, `lists` those of nested lists.
    """

    longest: int = 256
    rounds: int = 0
    seeds: int = 0
    lists: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Bytes and seconds by kind and length, values retrieved by distance, and claims."""
    if min(parameters.rounds, parameters.seeds, parameters.lists) < 0:
        raise UserError("rounds, seeds and lists count what is measured: give 0 or more")
    tables = {"memory": pd.DataFrame(memory(parameters.longest))}
    if parameters.rounds:
        tables["times"] = timed(LengthRun(parameters.rounds, parameters.longest), store)
    if parameters.seeds:
        tables["retrieval"] = pd.DataFrame(_retrieval(parameters.seeds, store))
    if parameters.lists:
        tables["lists"] = pd.DataFrame(_lists(parameters.lists, store))
    if (parameters.rounds and parameters.longest == LONGEST) or tables.keys() - {"memory", "times"}:
        tables["claims"] = claims(tables)
    return tables


def _lists(seeds: int, store: Store) -> Iterator[dict[str, object]]:
    """One row per trained encoder: accuracy on nested lists, and of the best guess."""
    for kind in SOLVING:
        for seed in range(seeds):
            run = NestedRun(kind, LISTS, LAYERS, seed=seed)
            known, asked = texts(run)
            yield {"kind": str(kind), "seed": seed, "right": solved(run, store),
                   "guess": known.guessed(asked)}  # fmt: skip


def _retrieval(seeds: int, store: Store) -> Iterator[dict[str, object]]:
    """One row per trained encoder: values found near and far, and far places within its reach."""
    asked = [(kind, False) for kind in TRAINED] + [(Mixing.GLOBAL, True)]
    for kind, last in asked:
        within = reach(kind, TASK, LAYERS, last=last)
        for seed in range(seeds):
            found = retrieved(RetrievalRun(kind, TASK, LAYERS, last=last, seed=seed), store)
            far = found["distance"] > NEAR
            yield {"kind": str(kind), "asks": LAST if last else FIRST, "seed": seed,
                   "near": found["right"][~far].mean(), "far": found["right"][far].mean(),
                   "reached": within[found["distance"][far]].mean(),
                   "texts": int(far.sum())}  # fmt: skip


def reach(kind: Mixing, sizes: Sizes, layers: int, *, last: bool = False) -> np.ndarray:
    """Whether a path of so many layers leads from each distance to the asking token."""
    block = mix(kind, Attention(4, 1, 0.0, AttentionPath.EXPLICIT), sizes)
    if not isinstance(block, Sparse):
        return np.ones(sizes.length, dtype=bool)
    one = pairs(block.pattern, sizes.length).numpy().astype(int)
    paths = np.linalg.matrix_power(one, layers) > 0
    return paths[-1][::-1] if last else paths[0]


def slope(own: pd.DataFrame, of: str) -> float:
    """Least-squares slope of log `of` over log length, from LONG on."""
    long = own[own["length"] >= LONG]
    return float(np.polyfit(np.log(long["length"]), np.log(long[of]), 1)[0])


def slopes(tables: Tables) -> pd.DataFrame:
    """Exponents of time, with their interval over rounds, and of memory, forward and backward."""
    both = {name: tables[name].query("direction == @BACK") for name in ("times", "memory")}
    rows = []
    for kind, own in both["memory"].groupby("kind", sort=False):
        timed_here = both["times"].query("kind == @kind").groupby("round")
        rounds = [slope(each, "seconds") for _, each in timed_here]
        time = over_seeds(rounds) if rounds else Summary(*[np.nan] * 4, 0)
        rows.append({"kind": kind, "time": time.mean, "low": time.low, "high": time.high,
                     "memory": slope(own, "bytes")})  # fmt: skip
    return pd.DataFrame(rows)


def _layer(times: pd.DataFrame, direction: str) -> pd.DataFrame:
    """Seconds of a layer, attention and feed-forward, one column per kind."""
    own = times[times["direction"] == direction]
    wide = own.pivot(index=["length", "round"], columns="kind", values="seconds")
    return wide.drop(columns=FEEDING).add(wide[FEEDING], axis=0)


def quicker(times: pd.DataFrame, direction: str = FORWARD) -> pd.DataFrame:
    """A layer with full attention over one of each other kind: median of rounds, and extremes."""
    layer = _layer(times, direction)
    ratios = layer.rdiv(layer[Mixing.FULL], axis=0).drop(columns=Mixing.FULL)
    long = ratios.melt(ignore_index=False).reset_index()
    found = long.groupby(["kind", "length"], sort=False)["value"]
    return found.agg(value="median", low="min", high="max").reset_index()


def crossover(times: pd.DataFrame, kind: str) -> float:
    """Length from which the kind is quicker than full attention, forward and backward, by medians.

    Between two lengths it is read off the straight line of logarithms; NaN where it never is.
    """
    median = times[times["direction"] == BACK].pivot_table(
        index="length", columns="kind", values="seconds", aggfunc="median"
    )
    gain = np.log(median[Mixing.FULL] / median[kind])
    behind = gain[gain <= 0]
    if behind.empty:
        return float(gain.index[0])
    after = gain[gain.index > behind.index[-1]]
    if after.empty:
        return float("nan")
    ends = [(behind.index[-1], behind.iloc[-1]), (after.index[0], after.iloc[0])]
    (short, under), (long, over) = ends
    return float(short * (long / short) ** (-under / (over - under)))


def peak(found: pd.DataFrame, kind: str, length: int, direction: str = FORWARD) -> float:
    """Most bytes that a layer holds at once: of the sublayer that takes more."""
    own = found[(found["length"] == length) & (found["direction"] == direction)]
    return float(own[own["kind"].isin((kind, FEEDING))]["bytes"].max())


def saved(found: pd.DataFrame, length: int, kind: str = Mixing.LINFORMER) -> float:
    """Memory of a layer with full attention over that with another kind."""
    return peak(found, Mixing.FULL, length) / peak(found, kind, length)


def repaired(retrieval: pd.DataFrame) -> pd.DataFrame:
    """Accuracy on far tokens beyond chance, as a share of full attention's, by kind and seed."""
    first = retrieval[retrieval["asks"] == FIRST]
    full = first[first["kind"] == Mixing.FULL].set_index("seed")["far"] - CHANCE
    share = (first["far"] - CHANCE) / first["seed"].map(full)
    return first.assign(share=share)[["kind", "seed", "share", "near"]]


def claims(tables: Tables) -> pd.DataFrame:
    """Of what was measured: costs up to the longest text, values found, and lists solved."""
    parts: list[dict[str, object]] = []
    if "times" in tables and tables["memory"]["length"].max() == LONGEST:
        parts += _cost_claims(tables)
    if "retrieval" in tables:
        parts += _retrieval_claims(tables["retrieval"])
    if "lists" in tables:
        parts += _list_claims(tables["lists"])
    return claims_table(parts)


def _cost_claims(tables: Tables) -> list[dict[str, object]]:
    """Exponents by kind, and Linformer's gains."""
    rows = []
    for row in slopes(tables).itertuples():
        square = row.kind in SQUARE
        if square or row.kind in LINEAR:
            name = "length-full-quadratic" if square else "length-others-linear"
            rows.append(_row(name, row.kind, row.time, row.low, row.high))
        if row.kind not in (FEEDING, MASKED):
            full = row.kind == Mixing.FULL
            name = "length-memory-quadratic" if full else "length-memory-linear"
            rows.append(_row(name, row.kind, row.memory))
    layer = _layer(tables["times"], FORWARD)
    for length in PAPER_SPEED:
        here = layer.loc[length]
        gain = over_seeds(here[Mixing.FULL] / here[Mixing.LINFORMER])
        rows.append(_row(f"length-linformer-quicker-{length}", "Linformer", gain.mean, gain.low,
                         gain.high))  # fmt: skip
        rows.append(_row(f"length-linformer-memory-{length}", "Linformer",
                         saved(tables["memory"], length)))  # fmt: skip
    return rows


def _retrieval_claims(retrieval: pd.DataFrame) -> list[dict[str, object]]:
    window = retrieval[retrieval["kind"] == Mixing.WINDOW]
    rows = [{**_row("length-window-stays-near", "window", row.far - CHANCE), "seed": row.seed}
             for row in window.itertuples()]  # fmt: skip
    for row in repaired(retrieval).itertuples():
        if row.kind in (*REPAIRED, Mixing.LINFORMER):
            far = row.kind in REPAIRED
            name = "length-far-is-repaired" if far else "length-linformer-finds"
            closed = NONE if row.near >= LEARNED else UNTRAINED
            rows.append({**_row(name, row.kind, row.share), "seed": row.seed, "closed": closed})
    return rows


def kept(lists: pd.DataFrame) -> pd.DataFrame:
    """Accuracy beyond the best guess as a share of full attention's, by kind and seed.

    `known` is what full attention knows beyond the guess.
    """
    beyond = lists["right"] - lists["guess"]
    full = beyond[lists["kind"] == Mixing.FULL].set_axis(
        lists.loc[lists["kind"] == Mixing.FULL, "seed"]
    )
    known = lists["seed"].map(full)
    return lists.assign(share=beyond / known, known=known)


def _list_claims(lists: pd.DataFrame) -> list[dict[str, object]]:
    names = {Mixing.WINDOW: "length-lists-window-loses", Mixing.LINEAR: "length-lists-linear-loses"}
    names |= dict.fromkeys(KEEPING, "length-lists-others-keep")
    rows = []
    for row in kept(lists).itertuples():
        if row.kind in names:
            closed = NONE if row.known >= KNOWN else UNKNOWN
            rows.append({**_row(names[Mixing(row.kind)], row.kind, row.share), "seed": row.seed,
                         "closed": closed})  # fmt: skip
    return rows


def _row(claim: str, kind: str, *numbers: float) -> dict[str, object]:
    return released_claim(claim, str(kind), *numbers, corpus="")


def gains(times: pd.DataFrame) -> pd.DataFrame:
    """The lines of the figure, Linformer first, as marks take the colours in order."""
    found = quicker(times)
    return pd.concat([found[found["kind"] == kind] for kind in map(str, SHOWN)])


def paper() -> pd.DataFrame:
    """Linformer's of the work."""
    rows = [(str(Mixing.LINFORMER), *each) for each in PAPER_SPEED.items()]
    return pd.DataFrame(rows, columns=["kind", "length", "value"])


def per_token(tables: Tables) -> pd.DataFrame:
    """Kilobytes held at once for each token of the text, forward and backward."""
    own = tables["memory"].query("direction == @BACK and kind != @FEEDING")
    return own.assign(value=own["bytes"] / own["length"] / 1000)


def costs(tables: Tables) -> pd.DataFrame:
    """Exponents, cost of the longest text, and from where on a kind is quicker than full."""
    times, found = (tables[name].query("direction == @BACK") for name in ("times", "memory"))
    seconds = times.groupby(["kind", "length"])["seconds"].median()
    size = found.set_index(["kind", "length"])["bytes"]
    long = found["length"].max()
    rows = []
    for row in slopes(tables).itertuples():
        known = row.kind != MASKED
        rows.append({
            "kind": row.kind,
            "time grows as n to the": f"{row.time:.2f} [{row.low:.2f}, {row.high:.2f}]"
            if known else "", "memory as n to the": f"{row.memory:.2f}",
            f"ms at {words.count(long)}": f"{1e3 * seconds[row.kind, long]:,.0f}" if known else "",
            f"MB at {words.count(long)}": f"{size[row.kind, long] / 1e6:,.0f}",
            "quicker than full from": _from(tables["times"], row.kind) if known else "",
        })  # fmt: skip
    return pd.DataFrame(rows)


def _from(times: pd.DataFrame, kind: str) -> str:
    if kind in (Mixing.FULL, FEEDING):
        return ""
    length = crossover(times, kind)
    return "never" if np.isnan(length) else f"{words.count(round(length, -1))} tokens"


def found_where(retrieval: pd.DataFrame) -> pd.DataFrame:
    """Values found by kind: mean over seeds with Student's interval, cut at none and all."""
    rows = []
    for (kind, asks), own in retrieval.groupby(["kind", "asks"], sort=False):
        near, far = over_seeds(own["near"]), over_seeds(own["far"])
        reached = own["reached"].mean()
        rows.append({"kind": kind, "asking token": asks.removesuffix(" token"),
                     "near": words.percent(near.mean),
                     "far": words.estimate(far.mean, max(far.low, 0), min(far.high, 1)),
                     "far places in reach": words.percent(reached),
                     "far, at most": words.percent(reached + (1 - reached) * CHANCE)})  # fmt: skip
    return pd.DataFrame(rows)


def lists_table(lists: pd.DataFrame) -> pd.DataFrame:
    """Lists solved by kind, and their share of full attention's gain over guessing.

    Means over seeds with Student's interval.
    """
    rows = []
    for kind, own in kept(lists).groupby("kind", sort=False):
        right, share = over_seeds(own["right"]), over_seeds(own["share"])
        full = kind == Mixing.FULL
        rows.append({
            "kind": kind, "lists solved": words.estimate(right.mean, right.low, right.high),
            "share of full attention's gain over guessing":
            "" if full else words.estimate(share.mean, share.low, share.high),
            "Tay et al.": words.percent(PAPER_LISTS[Mixing(kind)]) if kind in PAPER_LISTS else "",
        })  # fmt: skip
    return pd.DataFrame(rows)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    found: Facts = {"chance": words.percent(CHANCE), "near": str(NEAR), "width": str(WIDTH),
                    "length": str(TASK.length), "longest": words.count(LONGEST),
                    "window": str(Sizes(LONGEST).window), "keys": str(Sizes(LONGEST).keys),
                    "long": words.count(LONG)}  # fmt: skip
    found |= {f"paper_quicker_{length}": str(value) for length, value in PAPER_SPEED.items()}
    found |= {f"paper_saved_{length}": str(value) for length, value in PAPER_MEMORY.items()}
    keys = {kind: kind.name.lower() for kind in Mixing} | {MASKED: "masked"}
    if {"times", "memory"} <= tables.keys() and tables["times"]["length"].max() >= 2 * LONG:
        for row in slopes(tables).itertuples():
            if row.kind != FEEDING:
                key = keys[row.kind]
                found |= {f"time_{key}": f"{row.time:.2f}", f"memory_{key}": f"{row.memory:.2f}"}
                found[f"time_{key}_estimate"] = words.number(row.time, row.low, row.high)
        for row in quicker(tables["times"]).itertuples():
            found[f"{keys[row.kind]}_{row.length}"] = f"{row.value:.1f}"
        judged = tables["claims"].set_index("claim")["value"].filter(like="linformer-quicker")
        found |= {f"linformer_{n.split('-')[-1]}": f"{gain:.1f}" for n, gain in judged.items()}
        found |= {f"saved_{n}": f"{saved(tables['memory'], n):.1f}" for n in PAPER_MEMORY}
        for kind in (*LINEAR, Mixing.FUSED):
            found[f"from_{keys[kind]}"] = words.count(round(crossover(tables["times"], kind), -1))
    if "retrieval" in tables:
        far = reach(Mixing.RANDOM, TASK, LAYERS + 1)[NEAR + 1 :]
        found[f"reached_random_{LAYERS + 1}"] = words.percent(far.mean())
        for (kind, asks), own in tables["retrieval"].groupby(["kind", "asks"]):
            key = f"{keys[kind]}_last" if asks == LAST else keys[kind]
            found |= {f"far_{key}": words.percent(own["far"].mean()),
                      f"far_{key}_range": words.percents(own["far"]),
                      f"near_{key}": words.percent(own["near"].mean()),
                      f"reached_{key}": words.percent(own["reached"].mean())}  # fmt: skip
    if "lists" in tables:
        lists = kept(tables["lists"])
        found |= {"lists_guess": words.percent(lists["guess"].mean()),
                  "lists_longest": str(LISTS.length), "list_seeds": str(lists["seed"].nunique()),
                  "lists_known": f"{100 * lists['known'].mean():.0f}"}  # fmt: skip
        for kind, own in lists.groupby("kind"):
            found[f"lists_{keys[kind]}"] = words.percent(own["right"].mean())
            found[f"kept_{keys[kind]}_range"] = words.percents(own["share"])
        found |= {f"paper_lists_{keys[k]}": words.percent(v) for k, v in PAPER_LISTS.items()}
    return found
