"""Page 18: encoder heads pruned by learned gates (Voita et al. 2019, section 6.2, Figures 7, 8)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.results import published
from headbook.chapters.specialised_heads._kept import (
    NO_ROLE,
    adjusted,
    claims_of,
    paper,
    rivals,
    survival_tests,
    trained_enough,
)
from headbook.chapters.specialised_heads._pruning_views import (
    agreement,
    change,
    near,
    of_first,
    roles_kept,
    usual,
)
from headbook.chapters.specialised_heads._released import Reading, read, trees_of
from headbook.chapters.specialised_heads._roles import Roles, role_measures
from headbook.chapters.specialised_heads._sweep import (
    GATES,
    IMPORTANCE,
    LEARNED,
    LONGER_PENALTY,
    RANDOM,
    WHOLE,
    Point,
    Sweep,
    kept_heads,
    results,
)
from headbook.chapters.tables import claims_table, of_ours, of_small
from headbook.chapters.words import TITLES
from headbook.claims.gates import RELEASED
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.types import Kind, UserError

NUMBER = 18
TITLE = "Which encoder heads can be pruned?"
WORK = "voita2019"
STUDY = "18_pruning_the_encoder"
KEYS = ("model", "text", "sentences", "gated", "test", "way", "penalty", "seed", "draw", "updates")
MISSING = "not in the store"
NO_TRAININGS, STORED, ALL = "none", "stored", "all"
READS = {"firefox-en-pt": "ewt-sample", "firefox-pt-en": "ud-pud-pt"}
"""Gold trees in the language a student reads."""


@dataclass(frozen=True)
class Parameters:
    """Students; kinds of attention whose heads are gated; which trainings are read.

    `trained` is none (the students are measured as released), stored (what the run store has) or
    all (what it lacks is trained: some ten minutes per training on one core).
    """

    models: tuple[str, ...] = ("firefox-en-pt",)
    kinds: tuple[str, ...] = ("encoder",)
    trained: str = NO_TRAININGS
    sentences: int | None = None


def compute(parameters: Parameters, store: Store) -> Tables:
    """Roles of every head before pruning; and, of the trainings, results, heads kept, their roles,
    controls, tests, claims."""
    _check(parameters)
    before = {name: _reading(name, parameters.sentences) for name in parameters.models}
    roles = {name: Roles.of(each).heads() for name, each in before.items()}
    tables = {"heads": pd.concat(roles.values(), ignore_index=True)}
    if parameters.trained == NO_TRAININGS:
        return tables
    train = parameters.trained == ALL
    found = [
        _pruned(Sweep(name, store, Kind(kind), train=train), reading, roles[name])
        for name, reading in before.items()
        for kind in parameters.kinds
    ]
    names = dict.fromkeys(name for each in found for name in each)
    joined = {n: pd.concat([e[n] for e in found if n in e], ignore_index=True) for n in names}
    return tables | joined


def _check(parameters: Parameters) -> None:
    if parameters.trained not in (NO_TRAININGS, STORED, ALL):
        raise UserError(
            f"trained is {parameters.trained!r}: give {NO_TRAININGS}, {STORED} or {ALL}"
        )
    if unknown := [name for name in parameters.models if name not in READS]:
        raise UserError(f"{unknown[0]} cannot be pruned on this page: name {' or '.join(READS)}")
    if unknown := [kind for kind in parameters.kinds if kind not in (Kind.ENCODER, Kind.CROSS)]:
        raise UserError(f"kinds holds {unknown[0]!r}: give {Kind.ENCODER} or {Kind.CROSS}")


def _reading(name: str, sentences: int | None) -> Reading:
    text = READS[name]
    return read(load(name), text, trees_of(text, sentences))


def _pruned(sweep: Sweep, reading: Reading, before: pd.DataFrame) -> Tables:
    """The tables of one sweep: of trainings that the store has or that are run now, and published
    rows of others, whose weights nobody keeps."""
    points = list(sweep.points())
    if not any(point.way == GATES for point in points):
        points = []  # the whole model is the same training whatever is gated
    of_encoder = sweep.kind is Kind.ENCODER
    labels = {"model": sweep.name, "gated": str(sweep.kind)}
    tables = {"released": results(points), "kept": kept_heads(points), "rivals": rivals(points)}
    if of_encoder:
        tables["roles"] = pd.DataFrame([row for point in points for row in _roles(point, reading)])
    tables = {name: table.assign(**labels) for name, table in tables.items()}
    tables = {name: _with_published(name, table, labels) for name, table in tables.items()}
    trainings = {"trainings": _counts(sweep, tables["released"]).assign(**labels)}
    if tables["released"].empty:
        return trainings
    tables["rivals"] = adjusted(tables["rivals"])
    if of_encoder:
        tables["tests"] = survival_tests(tables["kept"], before).assign(**labels)
        shut = trained_enough(tables["released"])
        of = {"model": sweep.name, "target": reading.model.languages[1]}
        rows = claims_table(claims_of(points, before, of, shut))
        tables["claims"] = _with_published("claims", rows, {"model": sweep.name})
    return tables | trainings


def _with_published(name: str, table: pd.DataFrame, labels: Mapping[str, str]) -> pd.DataFrame:
    """The rows, and behind them those that are published of other trainings with these labels."""
    try:
        known = published(STUDY, RELEASED).tables.get(name, pd.DataFrame())
    except UserError:  # never published
        known = pd.DataFrame()
    if known.empty:
        return table
    for column, value in labels.items():
        known = known[known[column] == value]
    if table.empty:
        return known.reset_index(drop=True)
    keys = [key for key in (*KEYS, "claim") if key in table and key not in labels]
    new = pd.MultiIndex.from_frame(table[keys].astype(known[keys].dtypes))
    others = known[~pd.MultiIndex.from_frame(known[keys]).isin(new)]
    return pd.concat([table, others], ignore_index=True)[list(known)]


def _counts(sweep: Sweep, found: pd.DataFrame) -> pd.DataFrame:
    """One row per way of choosing heads with its number of trainings; then those not run yet."""
    labels = ["way", "penalty", "seed", "draw", "updates"]
    known = set() if found.empty else set(found[labels].itertuples(index=False, name=None))
    ways = Counter(way for way, *_ in known)
    rows = [{"way": way, "trainings": ways[way]} for way in sorted(ways)]
    return pd.DataFrame([*rows, {"way": MISSING, "trainings": len(sweep.plan.keys() - known)}])


def _roles(point: Point, reading: Reading) -> Iterator[dict[str, object]]:
    """One row per kept head of the trained model: its role and scores on gold trees, measured anew
    where gates were learned or nothing was closed."""
    if point.way not in (WHOLE, *LEARNED):
        return
    model = load(reading.model.name)
    point.made.install(model)
    pruned = replace(reading, model=model)
    measures = role_measures(pruned, replicates=0)
    found = Roles(pruned, pruned.sums(measures)).heads()
    closed = {(head.layer + 1, head.head + 1) for head in point.made.closed}
    columns = ["layer", "head", "role", "previous", "next", "own", "relation", "margin", "rare"]
    for row in found[columns].to_dict("records"):
        if (row["layer"], row["head"]) not in closed:
            yield {**point.labels, "updates": point.updates, **row}


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    heads = tables["heads"]
    first = heads[heads["model"] == heads["model"].iloc[0]]
    having = first[first["role"] != NO_ROLE]
    found: Facts = {
        "heads": str(len(first)),
        "sentences": words.count(first["sentences"].iloc[0]),
        "with_role": str(len(having)),
        "role_heads": ", ".join(
            words.head(*pair) for pair in having[["layer", "head"]].to_numpy().tolist()
        ),
        "title": TITLES[first["model"].iloc[0]],
    }
    return found | (_of_trainings(tables) if "released" in tables else {})


def _of_trainings(tables: Tables) -> Facts:
    rows = usual(tables["released"])
    gates = rows.query("way == @GATES")
    tests = of_first(tables["tests"]).set_index("test")
    over, within = tests.loc["all"], tests.loc["all, within layers"]
    planned = of_first(tables["trainings"])["trainings"].sum()
    gated = tables["trainings"].query("way != @MISSING")
    found: Facts = {
        "whole": f"{rows.query('way == @WHOLE')['bleu'].mean():.1f}",
        "gates": str(len(gates)), "seeds": str(gates["seed"].nunique()),
        "stored": str(of_first(gated)["trainings"].sum()), "planned": str(planned),
        "kept_with": words.percent(over["with_role"]),
        "kept_without": words.percent(over["without"]),
        "survival_gap": f"{over['with_role'] - over['without']:.2f}",
        "p": f"{over['p']:.3f}", "p_within": f"{within['p']:.2f}",
    }  # fmt: skip
    beside_gates = of_first(tables["rivals"])
    important = beside_gates[beside_gates["way"] == IMPORTANCE].set_index("penalty")
    agreed = agreement(tables).set_index("penalty")
    for name, left in (("some", 17), ("few", 6)):
        row = near(rows, left)
        own = gates[gates["penalty"] == row["penalty"]]
        moved = change(tables, row["penalty"])
        beside = rows[(rows["way"] == RANDOM) & (rows["penalty"] == row["penalty"])]
        same = agreed["same"].get(row["penalty"], np.nan)
        found |= {
            name: words.span(own["kept"]), f"{name}_gone": words.span(own["of"] - own["kept"]),
            f"{name}_bleu": f"{own['bleu'].mean():.1f}",
            f"{name}_change": words.signed(moved.mean, 1),
            f"{name}_interval": words.between(moved.low, moved.high, 1),
            f"{name}_random": f"{beside['bleu'].mean():.1f}" if len(beside) else "not trained",
            f"{name}_draws": str(len(beside)), f"{name}_same": words.percent(same),
            f"{name}_chance": words.percent(agreed["chance"].get(row["penalty"], np.nan)),
            f"{name}_roles": words.percent(roles_kept(tables, row["penalty"])),
            f"{name}_saturated": words.percent(own["saturated"].mean()),
            f"{name}_important": (
                words.difference(*important.loc[row["penalty"], ["gap", "low", "high"]], digits=1)
                if row["penalty"] in important.index else "not run"
            ),
        }  # fmt: skip
    claims = tables["claims"].query("corpus == 'released'")
    claims = claims[claims["model"] == rows["model"].iloc[0]].set_index("claim")
    if "voita-s6-choice-matters" in claims.index:
        stays = claims.loc[[NEAR]]  # seeds share the heads: the widest interval over these
        ends = stays["low"].min(), stays["high"].max()
        found["near"] = words.estimate(stays["value"].mean(), *ends)
        found["near_chance"] = words.percent(claims.loc[[NEAR], "baseline"].mean())
        gap = over_seeds(claims.loc[["voita-s6-choice-matters"], "value"])
        found["random_gap"] = words.signed(gap.mean, 1)
        found["random_loses"] = words.number(gap.mean, gap.low, gap.high, 1)
        found["random_gap_interval"] = words.between(gap.low, gap.high, 1)
    for each in paper().query("text == 'WMT'").to_dict("records"):
        found[f"paper_{each['left']}"] = words.signed(each["value"])
    found |= _of_others(tables)
    return found | (_of_young(tables) | _of_ours(tables) if "points" in tables else {})


def _of_others(tables: Tables) -> Facts:
    """Of the sweeps with one seed: the fewest heads of cross-attention that gates leave, and of the
    other direction's encoder those at the λ of its random control."""
    rows, kept = tables["released"], tables["kept"]
    first = rows["model"] == rows["model"].iloc[0]
    cross = rows[first & (rows["gated"] == Kind.CROSS)]
    back = rows[~first & (rows["gated"] == Kind.ENCODER) & (rows["penalty"] == LONGER_PENALTY)]
    found: Facts = {}
    for name, sweep in (("cross", cross), ("back", back)):
        for way, suffix in ((GATES, ""), (RANDOM, "_random")):
            found |= _fewest(sweep[sweep["way"] == way], f"{name}{suffix}")
    tests, rivals = tables["tests"], tables["rivals"]
    over = tests[(tests["model"] != rows["model"].iloc[0]) & (tests["test"] == "all")]
    beside = rivals[(rivals["model"] != rows["model"].iloc[0]) & (rivals["gated"] == Kind.ENCODER)]
    for name, column, form in (("back_with_role", "with_role", words.percent),
                               ("back_without", "without", words.percent),
                               ("back_p", "p", "{:.2f}".format)):  # fmt: skip
        found[name] = form(over[column].iloc[0]) if len(over) else "not run"
    found["back_random_loses"] = (
        words.number(*beside[["gap", "low", "high"]].iloc[0], 1) if len(beside) else "not run"
    )
    drawn = kept[(kept["gated"] == Kind.CROSS) & (kept["way"] == RANDOM) & ~kept["kept"]]
    closed = [words.head(*pair) for pair in drawn[["layer", "head"]].to_numpy().tolist()]
    return found | {"cross_random_closed": ", ".join(closed) or "not run"}


def _fewest(rows: pd.DataFrame, name: str) -> Facts:
    """The training that leaves the fewest heads: how many of which, and the change of BLEU."""
    if rows.empty:
        return {name: "not run", f"{name}_change": "not run"}
    row = rows.sort_values("kept").iloc[0]
    gap = row[["difference", "difference_low", "difference_high"]]
    return {
        name: f"{row['kept']} of {row['of']}",
        f"{name}_change": words.difference(*gap, digits=1),
    }


NEAR = "voita-f8-nearest-a-role-last"
TRAINED_CLAIMS = {
    "half": "voita-f7-half",
    "fifth": "voita-f7-four-fifths",
    "random": "voita-s6-choice-matters",
}


def _of_young(tables: Tables) -> Facts:
    """Ranges over the small models trained here."""
    small = of_small(tables)
    of_claim = small["claims"].set_index("claim")
    claims, stays = of_claim["value"], of_claim.loc[[NEAR]].dropna(subset="value")
    found: Facts = {
        "young_models": str(small["points"]["model"].nunique()),
        "young_near": words.percents(stays["value"]) if len(stays) else "not run",
        "young_near_chance": words.percents(stays["baseline"]) if len(stays) else "not run",
    }
    for name, claim in TRAINED_CLAIMS.items():
        values = claims.loc[claim]
        low, high = words.signed(values.min(), 1), words.signed(values.max(), 1)
        found[f"young_{name}"] = f"{low} to {high}"
    return found


def _of_ours(tables: Tables) -> Facts:
    """Of the model trained here until it converged: what pruning costs, and which heads stay."""
    ours = of_ours(tables)
    claims = ours["claims"].set_index("claim")
    gates = ours["points"].query("arm == 'gates'").fillna({"encoder_heads": ""})
    gates = gates.sort_values("kept", ascending=False)
    found: Facts = {}
    for name, claim in TRAINED_CLAIMS.items():
        if claim in claims.index:
            value, low, high = claims.loc[claim, ["value", "low", "high"]]
            found[f"ours_{name}"] = words.difference(value, low, high, 1)
    if NEAR in claims.index:
        found["ours_near"] = words.estimate(*claims.loc[NEAR, ["value", "low", "high"]])
        found["ours_near_chance"] = words.percent(claims.loc[NEAR, "baseline"])
        left = ours["functions"].set_index("kept").sort_index()["mean_neighbour"]
        found["ours_neighbour_fewest"] = words.percent(left.iloc[0])
        found["ours_neighbour_all"] = words.percent(left.iloc[-1])
    beside = ours["controls"].query("control == 'random heads'").sort_values("kept")
    for name, row in zip(("fewest", "most"), (beside.head(1), beside.tail(1)), strict=True):
        for gap in row[["gap", "gap_low", "gap_high"]].to_numpy().tolist():
            found[f"ours_random_{name}"] = words.difference(*gap, 1)
            found[f"ours_random_{name}_kept"] = str(row["kept"].iloc[0])
    for count in gates[2 * gates["kept"] < gates["of"]]["kept"].head(1):
        found["ours_half_kept"] = str(count)
    for point in gates.tail(1).to_dict("records"):
        found["ours_fewest_kept"] = str(point["kept"])
        found["ours_fewest_heads"] = ", ".join(point["encoder_heads"].split())
    return found
