"""Page 49: content that heads route, and heads that bind it to roles (Schlag et al. 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headbook.artefacts.brackets import TRAINED, BracketsRun, Solved, solved
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.tables import claims_table, mean_claim, released_claim
from headbook.claims.gates import NONE
from headbook.looking.load import load
from headbook.looking.routing import (
    ALL,
    CUT,
    CUT_NEXT,
    MASKED,
    OWN,
    RANDOM,
    SOURCE,
    WHOLE,
    decoded,
    pairs,
)
from headbook.looking.text import text
from headbook.models.attention import Attention, AttentionPath
from headbook.models.binding import Bound, ConstantRole, Roles
from headbook.runs.store import Store
from headbook.statistics import interval, over_seeds, resampled_mean, resampled_ratio
from headbook.types import UserError

NUMBER = 49
TITLE = "Does attention route, and do roles bind?"
WORK = "schlag2019"
KEYS = ("model", "sentences", "roles", "seed", "updates")

FREQUENT = 50
"""Tokens that a probe tells apart."""
MAJORITY = "most frequent token"
PROBE, NEAREST = "probe", "nearest mean value"
HALF = 0.5
LENGTHS = (1, 2, 9, 33, 129)
SEEDS = 3
LEARNT = 0.9
"""Accuracy at depth 2 from which a model counts as trained."""
TRAINED_MODEL = "2 layers, width 32"


@dataclass(frozen=True)
class Parameters:
    """Models whose heads are read, sentences of the sample, updates of small models (0: none)."""

    models: tuple[str, ...] = ("firefox-en-pt",)
    sentences: int = 200
    updates: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """The reduction, the content that heads route, and, with updates, trained models' accuracy."""
    sentences = text("ewt-sample", first=parameters.sentences).sentences
    if len(sentences) < 8:
        raise UserError(f"sentences is {parameters.sentences}; give 8 or more")
    exact = pd.DataFrame(reduction())
    routes = [_routed(name, list(sentences)) for name in parameters.models]
    heads = pd.concat([each[0] for each in routes], ignore_index=True)
    tables = {
        "reduction": exact,
        "heads": heads,
        "paths": pd.concat([each[1] for each in routes], ignore_index=True),
    }
    rows = [row for _, _, own in routes for row in own]
    rows.append(released_claim("binding-reduces-to-plain", "64-bit numbers",
                               exact["difference"].max(), corpus=""))  # fmt: skip
    if parameters.updates:
        tables["brackets"] = pd.DataFrame(brackets(parameters.updates, store))
        rows += learnt_claims(tables["brackets"])
    return {**tables, "claims": claims_table(rows)}


def reduction() -> Iterator[dict[str, object]]:
    """The largest difference of attention with roles of one from plain attention, 64 bits."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = Attention(32, 4, 0.0, AttentionPath.EXPLICIT).double()
    ones = Bound(plain, ConstantRole(32).double())
    of_query = torch.nn.Linear(32, 32).double()
    torch.nn.init.zeros_(of_query.weight)
    torch.nn.init.ones_(of_query.bias)
    zero_map = Bound(plain, of_query)
    for length in LENGTHS:
        states = torch.randn(2, length, 32, generator=generator, dtype=torch.float64)
        mask = torch.arange(length) < torch.tensor([[length], [max(1, length // 2)]])
        with torch.no_grad():
            wanted = plain(states, states, mask[:, None, None])
            gaps = [(each(states, states, mask[:, None, None]) - wanted).abs().max()
                    for each in (ones, zero_map)]  # fmt: skip
        yield {"length": length, "difference": float(max(gaps))}


def _routed(
    name: str, sentences: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, object]]]:
    """Probe results of each head; the chosen head, last states with intervals; claims."""
    model = load(name)
    found = decoded(model.network, pairs(model, sentences), len(sentences), FREQUENT)
    ways = [(PROBE, each, hits) for each, hits in found.probed.items()]
    ways += [(NEAREST, each, hits) for each, hits in found.nearest.items()]
    heads = [
        {"layer": layer + 1, "head": head + 1, "value": found.every[:, layer, head].mean(),
         "weight": weight}
        for (layer, head), weight in np.ndenumerate(found.weight)
    ]  # fmt: skip
    layer, head = found.head
    weight = float(found.weight[layer, head])
    one = {(reading, contexts): known(hits) for reading, contexts, hits in ways}
    paths = [{"reading": reading, "of": contexts, **_mean(hits)}
             for (reading, contexts), hits in one.items()]  # fmt: skip
    paths += [{"reading": "last states", "of": each, **_mean(hits)}
              for each, hits in found.states.items() if each != OWN]  # fmt: skip
    paths += [{"reading": "baseline", "of": each, **_mean(hits)}
              for each, hits in ((OWN, found.states[OWN]), (MAJORITY, found.majority))]  # fmt: skip
    labels = {"model": name, "sentences": len(sentences)}
    chosen = {"layer": layer + 1, "head": head + 1, "weight": weight, "types": found.types}
    return (pd.DataFrame(heads).assign(**labels), pd.DataFrame(paths).assign(**chosen, **labels),
            list(_routing_claims(name, one, found.majority, weight)))  # fmt: skip


def known(hits: np.ndarray) -> np.ndarray:
    """Rows of tokens that could be found at all."""
    return hits[~np.isnan(hits)]


def _mean(hits: np.ndarray) -> dict[str, float]:
    low, high = resampled_mean(hits, seed=0)
    return {"value": hits.mean(), "low": low, "high": high, "tokens": len(hits)}


def _routing_claims(
    name: str, one: dict[tuple[str, str], np.ndarray], majority: np.ndarray, weight: float
) -> Iterator[dict[str, object]]:
    """Rows of the claims about the chosen head; what a probe finds is a share of what it could.

    That is what it finds of the earlier token's own value, beyond the most frequent token.
    """
    there = weight >= HALF
    closed = NONE if there else f"present: no head with half of its weight on predecessors ({name})"
    known_at_most = one[PROBE, SOURCE] - majority
    values = {
        "binding-head-routes-token": one[PROBE, ALL] - majority,
        "binding-head-is-the-path": one[PROBE, ALL] - one[PROBE, MASKED],
    }
    for claim, hits in values.items():
        shares = interval(resampled_ratio(hits, known_at_most, seed=0))
        yield released_claim(claim, name, *shares, closed=closed)
    yield mean_claim("binding-affine-nearest", name, one[NEAREST, ALL], closed=closed)


def plan(updates: int) -> Iterator[BracketsRun]:
    """Every training of the page."""
    for roles in (Roles.NONE, Roles.QUERY, Roles.CONSTANT):
        yield from (BracketsRun(roles, updates, seed) for seed in range(SEEDS))


def brackets(updates: int, store: Store) -> list[dict[str, object]]:
    """One row per trained model and depth."""
    return [row for run in plan(updates) for row in rows_of(run, solved(run, store))]


def rows_of(run: BracketsRun, found: Solved) -> list[dict[str, object]]:
    """The accuracies of one trained model by depth, with what they are compared with."""
    labels = {"roles": str(run.roles), "seed": run.seed, "updates": run.updates,
              "parameters": found.parameters, "loss": found.losses[-1]}  # fmt: skip
    return [
        {"depth": int(depth), "value": value, "majority": found.majority[depth],
         "tested": found.tested[depth], **labels}
        for depth, value in found.accuracy.items()
    ]  # fmt: skip


def learnt_claims(rows: pd.DataFrame) -> list[dict[str, object]]:
    """One row per claim about trained models, over seeds."""
    wide = rows.pivot(index="seed", columns=["roles", "depth"], values="value")
    trained = {roles: wide[roles][list(TRAINED)].mean(axis=1) for roles in Roles}
    gain = wide[Roles.QUERY] - wide[Roles.NONE]
    values = {
        "binding-roles-help": trained[Roles.QUERY] - trained[Roles.NONE],
        "binding-roles-of-the-query": trained[Roles.QUERY] - trained[Roles.CONSTANT],
        "binding-deeper-gains-more": gain[max(TRAINED)] - gain[min(TRAINED)],
    }
    second = max(wide[roles][2].mean() for roles in (Roles.NONE, Roles.QUERY))
    closed = NONE if second >= LEARNT else f"converged: two brackets deep, {second:.0%} are right"
    found = []
    for claim, differences in values.items():
        each = over_seeds(differences.dropna())
        found.append(released_claim(claim, TRAINED_MODEL, each.mean, each.low, each.high,
                                    corpus="brackets", closed=closed))  # fmt: skip
    return found


def by_depth(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy by roles and depth: mean over seeds, and the least and the largest seed."""
    found = rows.groupby(["roles", "depth"], sort=False)["value"].agg(["mean", "min", "max"])
    return found.reset_index().rename(columns={"mean": "value", "min": "low", "max": "high"})


def majorities(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy of naming the most frequent value, by depth."""
    mean = rows.groupby("depth")["majority"].mean()
    return mean.rename("value").reset_index()


def trainings(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of roles: parameters, and accuracy by depth, mean over seeds."""
    found = []
    for (roles, parameters), own in rows.groupby(["roles", "parameters"], sort=False):
        line = {"model": roles, "parameters": words.count(parameters)}
        for depth, values in own.groupby("depth")["value"]:
            each = over_seeds(values)
            line[f"depth {depth}"] = words.percent(each.mean)
        found.append(line)
    last = rows.groupby("depth")["majority"].mean()
    found.append(
        {
            "model": "most frequent value",
            "parameters": "",
            **{f"depth {depth}": words.percent(value) for depth, value in last.items()},
        }
    )
    return pd.DataFrame(found)


def routing(tables: Tables) -> pd.DataFrame:
    """Recovery of the previous token, one row per way of reading, a column per model."""
    rows = tables["paths"]
    shown = rows.assign(shown=[words.estimate(each.value, each.low, each.high)
                               for each in rows.itertuples()])  # fmt: skip
    wide = shown.pivot(index=["reading", "of"], columns="model", values="shown")
    order = rows.drop_duplicates(["reading", "of"])[["reading", "of"]].apply(tuple, axis=1)
    return (
        wide.loc[list(order)].rename(columns=words.TITLES).reset_index().rename_axis(columns=None)
    )


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    found: Facts = {
        "exact": f"{tables['reduction']['difference'].max():.1g}",
        "sentences": str(int(tables["paths"]["sentences"].iloc[0])),
        "frequent": str(FREQUENT), "seeds": str(SEEDS),
    }  # fmt: skip
    names = {
        (PROBE, ALL): "probe", (PROBE, MASKED): "masked", (PROBE, RANDOM): "random",
        (NEAREST, ALL): "nearest", (NEAREST, MASKED): "nearest_masked",
        (NEAREST, SOURCE): "nearest_source", (PROBE, SOURCE): "source",
        ("last states", WHOLE): "states", ("last states", CUT): "cut",
        ("last states", CUT_NEXT): "next", ("baseline", OWN): "own",
        ("baseline", MAJORITY): "majority",
    }  # fmt: skip
    for row in tables["paths"].itertuples():
        model = words.key(row.model)
        if name := names.get((row.reading, row.of)):
            found[f"{model}_{name}"] = words.percent(row.value)
            found[f"{model}_{name}_estimate"] = words.estimate(row.value, row.low, row.high)
        found |= {f"{model}_head": words.head(row.layer, row.head),
                  f"{model}_weight": words.percent(row.weight),
                  f"{model}_types": words.count(row.types)}  # fmt: skip
    if "brackets" in tables:
        found |= _learnt(tables["brackets"])
    return found


def _learnt(rows: pd.DataFrame) -> Facts:
    keys = {Roles.NONE: "plain", Roles.CONSTANT: "constant", Roles.QUERY: "roles"}
    found: Facts = {"updates": words.count(rows["updates"].iloc[0])}
    mean = rows.groupby(["roles", "depth"])["value"].mean()
    for roles, key in keys.items():
        found |= {f"{key}_{depth}": words.percent(value) for depth, value in mean[roles].items()}
        own = rows[rows["roles"] == roles]
        found[f"{key}_parameters"] = words.count(own["parameters"].iloc[0])
    found |= {f"majority_{depth}": words.percent(value)
              for depth, value in rows.groupby("depth")["majority"].mean().items()}  # fmt: skip
    for claim in learnt_claims(rows):
        name = {"help": "gain", "query": "gain_constant", "more": "gain_deeper"}[
            claim["claim"].rsplit("-", 1)[-1]
        ]
        found[name] = words.points(claim["value"])
        if not np.isnan(claim["low"]):
            found[f"{name}_interval"] = words.interval(claim["low"], claim["high"])
    return found
