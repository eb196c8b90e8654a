"""Page 43: attention to fewer keys (Wang et al. 2020, Linformer)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from tqdm import tqdm

from headbook.artefacts.encoder_costs import ALL, FUSED, EncoderCosts
from headbook.artefacts.encoder_costs import costs as encoder_costs
from headbook.bench.rounds import interleaved, ratio
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.why import _going_on
from headbook.chapters.why._going_on import BY_HEAD, BY_LAYER, MEANS, ONE_BY_LAYER, QUARTER
from headbook.chapters.why._texts import of_length
from headbook.claims.gates import NONE, RELEASED
from headbook.claims.verdict import COLUMNS, OPTIONAL
from headbook.looking.load import load
from headbook.models.attention import Attention, AttentionPath
from headbook.models.capture import Point, capture
from headbook.models.fewer_keys import Mixed, means
from headbook.models.kept_bytes import kept_bytes
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.runs.timing import seconds
from headbook.statistics import over_seeds
from headbook.types import Kind, UserError

NUMBER = 43
TITLE = "Does attending to fewer keys cost much?"
WORK = "wang2020"
KEYS = ("model", "texts", "seed", "keys", "parts", "attention", "length")

LENGTH = 128
PARTS = (2, 4, 8, 16)  # tokens per key
WINDOW, RANK = "window", "best weights of that rank"
SHARED = _going_on.ONE
LEARNED = (4, 16)  # of these numbers the mixtures are learned, too
SEEDS, BATCH, RATE, NOISE = 3, 2, 3e-3, 0.01
SIZES, KEPT = (128, 256, 512, 1024, 2048), 128
"""Lengths whose cost is measured, and Linformer's keys at all of them."""
PAPER_SPEED, PAPER_MEMORY = 1.5, 1.7
"""Wang et al., table 3: 512 tokens, 128 keys, a whole model on a GPU."""

Heads = tuple[Tensor, Tensor, Tensor]  # queries, keys, values of a text, [layer head token dim]


@dataclass(frozen=True)
class Parameters:
    """Models, texts measured, updates of learned mixtures and rounds of timing (0: neither).

    Mixtures are learned on `training` further texts. `going_on` is the updates that our encoder
    goes on for (0: it does not), `steps` the rounds in which steps of encoders are timed.
    """

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    texts: int = 4
    training: int = 24
    updates: int = 0
    rounds: int = 0
    going_on: int = 0
    steps: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Errors of every head by how its keys become fewer; costs by length; claims."""
    if parameters.texts < 1 or parameters.training < 1:
        raise UserError("give texts and training of 1 or more")
    fixed, learned = [], []
    for name in parameters.models:
        count = parameters.texts + (parameters.training if parameters.updates else 0)
        heads = _captured(load(name), count)
        tested, training = heads[: parameters.texts], heads[parameters.texts :]
        fixed += list(_rows(name, _fixed(tested)))
        for seed in range(SEEDS if parameters.updates else 0):
            found = _learned(tested, training, parameters.updates, seed)
            learned += [{**row, "seed": seed} for row in _rows(name, found)]
    tables = {"memory": pd.DataFrame(_memory())}
    if fixed:
        tables["fixed"] = pd.DataFrame(fixed).assign(texts=parameters.texts)
    if learned:
        tables["learned"] = pd.DataFrame(learned).assign(texts=parameters.texts)
        tables["claims"] = claims(tables)
    if parameters.going_on:
        found = _going_on.trained(parameters.going_on, store)
        tables["gone_on"] = _going_on.rows(found, parameters.going_on)
        more = pd.DataFrame(_going_on.claims(found))
        tables["claims"] = pd.concat([tables["claims"], more]) if learned else more
    if parameters.rounds:
        tables["speed"] = pd.DataFrame(_speed(parameters.rounds))
    if parameters.steps:
        tables["steps"] = encoder_costs(EncoderCosts(parameters.steps), store)
    return tables


def _captured(model: Loaded, count: int) -> list[Heads]:
    points = (Point.QUERIES, Point.KEYS, Point.VALUES)
    found = []
    for batch in of_length(model, LENGTH, count):
        with torch.no_grad(), capture(model.network, {*points}) as tape:
            model.network(batch)
        found.append(tuple(torch.stack([each[0] for each in tape[Kind.ENCODER, point]]).float()
                           for point in points))  # fmt: skip
    return found


def weights(queries: Tensor, keys: Tensor) -> Tensor:
    """softmax(QKᵀ/√d)."""
    return (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(-1)


def error(context: Tensor, heads: Heads) -> Tensor:
    """Squared distance from the head's context, [layer head], as a share of the mean value's.

    0 is the context itself, 1 as far from it as the mean of all values, which attends to nothing.
    """
    queries, keys, values = heads
    whole = weights(queries, keys) @ values
    uniform = values.mean(-2, keepdim=True)
    return (context - whole).square().sum((-2, -1)) / (uniform - whole).square().sum((-2, -1))


def mixed(heads: Heads, of_keys: Tensor, of_values: Tensor) -> Tensor:
    """Contexts from mixtures of keys and values; matrices [mixture token], or one per layer."""
    queries, keys, values = heads
    per_layer = of_keys if of_keys.dim() == 2 else of_keys[:, None]
    other = of_values if of_values.dim() == 2 else of_values[:, None]
    return weights(queries, per_layer @ keys) @ (other @ values)


def windowed(heads: Heads, count: int) -> Tensor:
    """Contexts from the `count` tokens around each query."""
    queries, keys, values = heads
    near = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(-(count // 2)).tril((count - 1) // 2)
    scores = queries @ keys.mT * queries.shape[-1] ** -0.5
    return scores.masked_fill(~near, -torch.inf).softmax(-1) @ values


def of_rank(heads: Heads, rank: int) -> Tensor:
    """Contexts from the nearest matrix to the weights that has this rank."""
    queries, keys, values = heads
    left, scales, right = torch.linalg.svd(weights(queries, keys))
    return (left[..., :rank] * scales[..., None, :rank]) @ (right[..., :rank, :] @ values)


Errors = Iterator[tuple[str, int, Tensor]]  # how keys became fewer, tokens per key, [layer head]


def _fixed(tested: list[Heads]) -> Errors:
    for parts in PARTS:
        count = LENGTH // parts
        pooled = means(count, LENGTH)
        ways = {
            MEANS: lambda heads, rows=pooled: mixed(heads, rows, rows),
            WINDOW: lambda heads, count=count: windowed(heads, count),
            RANK: lambda heads, count=count: of_rank(heads, count),
        }
        for name, way in ways.items():
            yield name, parts, torch.stack([error(way(each), each) for each in tested]).mean(0)


def _learned(tested: list[Heads], training: list[Heads], updates: int, seed: int) -> Errors:
    layers = tested[0][0].shape[0]
    for parts in LEARNED:
        for name, shape in ((SHARED, (1,)), (BY_LAYER, (2, layers))):
            matrices = fit(training, (*shape, LENGTH // parts, LENGTH), updates, seed)
            with torch.no_grad():
                found = [error(mixed(each, matrices[0], matrices[-1]), each) for each in tested]
            yield name, parts, torch.stack(found).mean(0)


def fit(training: list[Heads], shape: tuple[int, ...], updates: int, seed: int) -> Tensor:
    """Mixing matrices that lower the mean error of all heads on texts of the training set.

    They start as means of neighbours with a little noise, as random mixtures lose more than these
    even when they have learned; the heads themselves stay as they are.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = NOISE * torch.randn(shape, generator=generator)
    matrices = nn.Parameter(means(shape[-2], shape[-1]) + noise)
    optimiser = torch.optim.Adam([matrices], lr=RATE)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    for _ in tqdm(range(updates), desc=f"{shape[-2]} keys", unit="update", mininterval=5):
        drawn = torch.randint(len(training), (BATCH,), generator=generator).tolist()
        found = [error(mixed(training[at], matrices[0], matrices[-1]), training[at])
                 for at in drawn]  # fmt: skip
        optimiser.zero_grad()
        torch.stack(found).mean().backward()
        optimiser.step()
        fall.step()
    return matrices.detach()


def _rows(model: str, found: Errors) -> Iterator[dict[str, object]]:
    for name, parts, errors in found:
        for (layer, head), value in np.ndenumerate(errors.numpy()):
            yield {"model": model, "keys": name, "parts": parts, "layer": layer + 1,
                   "head": head + 1, "error": float(value)}  # fmt: skip


def _blocks(length: int) -> dict[str, Attention]:
    torch.manual_seed(0)
    plain = Attention(256, 4, 0.0, AttentionPath.EXPLICIT)
    mixing = nn.Parameter(torch.randn(min(KEPT, length), length) * length**-0.5)
    fused = Attention(256, 4, 0.0, AttentionPath.FUSED)
    return {"all keys": plain, "Linformer": Mixed(plain, mixing, mixing), "all keys, fused": fused}


def _memory() -> Iterator[dict[str, object]]:
    """Bytes that one attention of width 256 stores for the backward pass, per token of one text."""
    for length in SIZES:
        states = torch.randn(1, length, 256, requires_grad=True)
        for name, block in _blocks(length).items():
            kept = kept_bytes(lambda block=block, states=states: block(states, states))
            yield {"attention": name, "length": length, "bytes": kept}


def _speed(rounds: int) -> Iterator[dict[str, object]]:
    """Seconds with all keys over seconds with fewer, forward and backward, round by round."""
    for length in SIZES:
        states = torch.randn(1, length, 256, requires_grad=True)
        works = {
            name: lambda _, block=block, states=states: seconds(
                lambda: block(states, states).sum().backward()
            )
            for name, block in _blocks(length).items()
        }
        taken = interleaved(works, rounds, f"{length} tokens")
        for name in ("Linformer", "all keys, fused"):
            spread = ratio(taken["all keys"], taken[name])
            yield {"attention": name, "length": length, "value": spread.median,
                   "low": spread.lowest, "high": spread.highest}  # fmt: skip


def claims(tables: Tables) -> pd.DataFrame:
    """One row per claim, model and seed: at a quarter as many keys as tokens."""
    quarter = {name: tables[name].query("parts == @QUARTER") for name in ("fixed", "learned")}
    learned = quarter["learned"].groupby(["model", "keys", "seed"])["error"].mean()
    fixed = quarter["fixed"].groupby(["model", "keys"])["error"].mean()
    rows = []
    for model, own in learned.groupby("model"):
        by_layer, shared = own[model, BY_LAYER], own[model, SHARED]
        found = {
            "linformer-quarter-is-enough": by_layer,
            "linformer-one-matrix-is-enough": shared - by_layer,
            "linformer-beats-means": fixed[model, MEANS] - by_layer,
        }
        rows += [{"claim": claim, "model": model, "corpus": RELEASED, "seed": seed, "value": value}
                 for claim, values in found.items() for seed, value in values.items()]  # fmt: skip
    rows.append({"claim": "linformer-saves-memory", "model": "one attention", "seed": "",
                 "corpus": "", "value": _saved(tables["memory"], 512)})  # fmt: skip
    labels = {"target": "", "low": np.nan, "high": np.nan, "baseline": np.nan, "closed": NONE}
    return pd.DataFrame(rows).assign(**labels)[[*COLUMNS, *OPTIONAL]]


def _saved(memory: pd.DataFrame, length: int) -> float:
    kept = memory[memory["length"] == length].set_index("attention")["bytes"]
    return float(kept["all keys"] / kept["Linformer"])


def curves(tables: Tables, model: str) -> pd.DataFrame:
    """Mean error over heads by tokens per key; learned ones with their interval over seeds."""
    fixed = tables["fixed"].query("model == @model").groupby(["keys", "parts"], sort=False)
    found = fixed["error"].mean().rename("value").reset_index()
    learned = tables.get("learned", pd.DataFrame(columns=["model", "keys", "parts", "seed"]))
    rows = []
    mine = learned[learned["model"] == model]
    for (name, parts), own in mine.groupby(["keys", "parts"], sort=False):
        seeds = over_seeds(own.groupby("seed")["error"].mean())
        rows.append({"keys": name, "parts": parts, "value": seeds.mean, "low": seeds.low,
                     "high": seeds.high})  # fmt: skip
    return pd.concat([pd.DataFrame(rows), found], ignore_index=True)


def summary(tables: Tables) -> pd.DataFrame:
    """Mean error by model and by how keys become fewer, one column per number of keys."""
    frames = []
    for model in tables["fixed"]["model"].unique():
        wide = curves(tables, model).pivot(index="keys", columns="parts", values="value")
        named = wide.rename(columns={parts: f"{LENGTH // parts} keys" for parts in PARTS})
        frames.append(named.map(words.percent).reset_index().assign(
            model=words.TITLES.get(model, model)))  # fmt: skip
    joined = pd.concat(frames).rename_axis(columns=None)
    return joined[["model", "keys", *(f"{LENGTH // parts} keys" for parts in PARTS)]]


def costs(tables: Tables) -> pd.DataFrame:
    """Memory and time of all keys over those of Linformer, by length."""
    rows = []
    for length in SIZES:
        row = {"tokens": words.count(length),
               "memory, times": f"{_saved(tables['memory'], length):.1f}"}  # fmt: skip
        if "speed" in tables:
            own = tables["speed"].query("length == @length").set_index("attention")
            for name, each in own.iterrows():
                row[f"time, times: {name}"] = f"{each['value']:.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def quicker(steps: pd.DataFrame) -> pd.DataFrame:
    """A step with all keys over one of each other kind: median and extremes of rounds, memory."""
    wide = steps.pivot(index=["length", "round"], columns="kind")
    rows = []
    for kind in steps["kind"].unique():
        if kind != ALL:
            times = (wide["seconds"][ALL] / wide["seconds"][kind]).groupby("length")
            memory = (wide["bytes"][ALL] / wide["bytes"][kind]).groupby("length").first()
            found = times.agg(value="median", low="min", high="max").assign(memory=memory)
            rows.append(found.reset_index().assign(kind=kind))
    return pd.concat(rows, ignore_index=True)


def steps_table(steps: pd.DataFrame) -> pd.DataFrame:
    """Tokens per second with all keys by length, and of other kinds how much quicker and smaller.

    Medians of rounds; memory is the most held at once.
    """
    full = steps[steps["kind"] == ALL].groupby("length").median(numeric_only=True)
    shown = pd.DataFrame({"tokens of a text": full.index.map(words.count),
                          "tokens/s, all keys": (full["tokens"] / full["seconds"]).map(words.count),
                          "MB, all keys": (full["bytes"] / 1e6).map(words.count)},
                         index=full.index)  # fmt: skip
    for kind, own in quicker(steps).set_index("length").groupby("kind", sort=False):
        times, memory = (own[name].map("{:.1f}".format) for name in ("value", "memory"))
        name = kind.removeprefix("Linformer, ").removeprefix("all keys, ")
        shown[f"{name}: speed, memory"] = times + ", " + memory
    return shown.reset_index(drop=True)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: at a quarter as many keys as tokens, and of one attention."""
    found: Facts = {"length": str(LENGTH), "quarter": str(LENGTH // QUARTER),
                    "texts": str(int(tables["fixed"]["texts"].iloc[0])), "kept": str(KEPT),
                    "seeds": str(SEEDS)}  # fmt: skip
    names = {MEANS: "means", WINDOW: "window", RANK: "rank", SHARED: "shared",
             BY_LAYER: "by_layer", BY_HEAD: "by_head", ONE_BY_LAYER: "one_by_layer"}  # fmt: skip
    for model in tables["fixed"]["model"].unique():
        mean = curves(tables, model).set_index(["keys", "parts"])["value"]
        for (name, parts), value in mean.items():
            key = f"{model.replace('-', '_')}_{names[name]}_{parts}"
            found[key] = words.percent(value)
    for length in SIZES:
        found[f"memory_{length}"] = f"{_saved(tables['memory'], length):.1f}"
    if "speed" in tables:
        for row in tables["speed"].itertuples():
            name = "fused" if "fused" in row.attention else "speed"
            found[f"{name}_{row.length}"] = f"{row.value:.1f}"
    if "gone_on" in tables:
        found |= _going_on.facts(tables["gone_on"], names)
    if "steps" in tables:
        for row in quicker(tables["steps"]).itertuples():
            key = "fused" if row.kind == FUSED else row.kind.split()[3]
            found |= {f"step_{key}_{row.length}": f"{row.value:.1f}",
                      f"step_memory_{key}_{row.length}": f"{row.memory:.1f}"}  # fmt: skip
    return {**found, "paper_speed": str(PAPER_SPEED), "paper_memory": str(PAPER_MEMORY)}
