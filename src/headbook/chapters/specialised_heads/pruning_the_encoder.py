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
    adjusted,
    claims_of,
    paper,
    rivals,
    survival_tests,
    trained_enough,
)
from headbook.chapters.specialised_heads._released import Reading, read, trees_of
from headbook.chapters.specialised_heads._roles import Roles, role_measures
from headbook.chapters.specialised_heads._sweep import (
    FROZEN,
    GATES,
    IMPORTANCE,
    LEARNED,
    RANDOM,
    UPDATES,
    WHOLE,
    Point,
    Sweep,
    kept_heads,
    results,
)
from headbook.chapters.tables import claims_table
from headbook.chapters.words import TITLES
from headbook.claims.gates import RELEASED
from headbook.looking.load import load
from headbook.runs.store import Store
from headbook.types import Kind, UserError

NUMBER = 18
TITLE = "Which encoder heads can be pruned?"
WORK = "voita2019"
STUDY = "18_pruning_the_encoder"
KEYS = ("model", "text", "sentences", "gated", "test", "way", "penalty", "seed", "draw", "updates")
MISSING = "not run"
NO_TRAININGS, STORED, ALL = "none", "stored", "all"
READS = {"firefox-en-pt": "ewt-sample", "firefox-pt-en": "ud-pud-pt"}
"""Gold trees in the language a student reads."""
NO_ROLE = "none"


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


NAMES = {
    GATES: "gates",
    FROZEN: "gates, weights frozen",
    IMPORTANCE: "most important heads",
    RANDOM: "random heads",
}


def of_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the first student's encoder, which the page tells of."""
    return rows[(rows["model"] == rows["model"].iloc[0]) & (rows["gated"] == Kind.ENCODER)]


def _usual(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the first student's encoder, trained for the usual number of updates."""
    return of_first(rows[rows["updates"] == UPDATES])


def curve(tables: Tables) -> pd.DataFrame:
    """BLEU minus that of the whole model, over heads left, one line per way of choosing heads.

    Gates of further seeds and further random draws are averaged per λ, with their range.
    """
    rows = _usual(tables["released"]).query("way != @WHOLE").dropna(subset="difference")
    by = rows.groupby(["way", "penalty"], sort=False)
    mean = by.agg(left=("kept", "mean"), value=("difference", "mean"), least=("difference", "min"),
                  most=("difference", "max"), low=("difference_low", "min"),
                  high=("difference_high", "max"), trainings=("difference", "size"))  # fmt: skip
    return mean.reset_index().assign(way=lambda frame: frame["way"].map(NAMES))


def survival(tables: Tables) -> pd.DataFrame:
    """Share of the heads kept over heads left, of those with a role before and of those without."""
    kept = _usual(tables["kept"]).query("way == @GATES")
    before = tables["heads"].query("model == @kept['model'].iloc[0]")
    merged = kept.merge(before[["layer", "head", "role"]], on=["layer", "head"])
    merged["group"] = np.where(merged["role"] == NO_ROLE, "heads without a role",
                               "heads with a role")  # fmt: skip
    merged["left"] = merged.groupby(["penalty", "seed"])["kept"].transform("sum")
    return merged.groupby(["group", "left"], sort=False)["kept"].mean().reset_index(name="value")


def lifetimes(tables: Tables) -> pd.DataFrame:
    """One row per encoder head: the share of the trainings with gates that keep it, and the short
    name of the role that it had before."""
    kept = _usual(tables["kept"]).query("way == @GATES")
    before = tables["heads"].query("model == @kept['model'].iloc[0]")
    shares = kept.groupby(["layer", "head"])["kept"].mean().reset_index(name="kept_share")
    merged = shares.merge(before[["layer", "head", "role", "relation"]], on=["layer", "head"])
    short = {"previous token": "−1", "next token": "+1", "rare words": "rare", NO_ROLE: ""}
    merged["short"] = [
        "synt." if role == "syntactic" else short[role] for role in merged["role"]
    ]  # fmt: skip
    return merged


def functions(tables: Tables) -> pd.DataFrame:
    """One row per training: heads left, and how many have which role, measured anew after it."""
    rows = _usual(tables["roles"]).query("way in [@GATES, @FROZEN, @WHOLE]")
    keys = ["way", "penalty", "seed"]
    counts = rows.groupby([*keys, "role"], sort=False).size().unstack("role", fill_value=0)
    wanted = ["previous token", "next token", "syntactic", "rare words", NO_ROLE]
    counts = counts.reindex(columns=wanted, fill_value=0)
    counts.insert(0, "left", rows.groupby(keys, sort=False).size())
    frame = counts.reset_index().sort_values(["way", "left"], ascending=[True, False])
    return frame.rename(columns={"penalty": "λ", NO_ROLE: "no role"}).rename_axis(columns=None)


def rivals_table(tables: Tables) -> pd.DataFrame:
    """One row per control: BLEU of the gates minus its own, with intervals and Holm's p."""
    rows = of_first(tables["rivals"])
    gap = zip(rows["gap"], rows["low"], rows["high"], strict=True)
    return pd.DataFrame({
        "heads": rows["kept"], "beside": rows["way"].map(NAMES),
        "heads there": rows["kept_beside"], "draw": rows["draw"] + 1,
        "BLEU, gates": rows["bleu"].map("{:.1f}".format),
        "BLEU, beside": rows["bleu_beside"].map("{:.1f}".format),
        "gates minus it": [words.difference(*ends) for ends in gap],
        "p (Holm)": rows["p_holm"].map("{:.3f}".format),
    })  # fmt: skip


def tests_table(tables: Tables) -> pd.DataFrame:
    """Whether heads with a role are kept more often: per training and over all of them."""
    rows = of_first(tables["tests"])
    return pd.DataFrame({
        "trainings": rows["test"], "λ": rows["penalty"].map(_number), "seed": rows["seed"].map(
            lambda seed: "" if pd.isna(seed) else str(int(seed))),
        "heads left": rows["kept"].map(_number),
        "with a role kept": [f"{words.percent(each)}" for each in rows["with_role"]],
        "others kept": [f"{words.percent(each)}" for each in rows["without"]],
        "p": rows["p"].map("{:.4f}".format),
        "p (Holm)": ["" if pd.isna(p) else f"{p:.4f}" for p in rows["p_holm"]],
    })  # fmt: skip


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:g}"


def young(tables: Tables) -> pd.DataFrame:
    """Models trained here: BLEU minus the whole model's, by heads kept."""
    rows = tables["points"].query("arm in ['gates', 'random heads']").dropna(subset="to_further")
    gap = zip(rows["to_further"], rows["to_further_low"], rows["to_further_high"], strict=True)
    return pd.DataFrame({
        "model": rows["model"], "heads": rows["arm"], "λ": rows["penalty"].map(_number),
        "left": rows["kept"], "of": rows["of"],
        "BLEU minus whole": [words.difference(*ends) for ends in gap],
    })  # fmt: skip


def near(rows: pd.DataFrame, left: int) -> pd.Series:
    """The row of the first seed's gates whose number of heads left is nearest."""
    mine = _usual(rows).query("way == @GATES and seed == 0")
    return mine.loc[(mine["kept"] - left).abs().idxmin()]


def roles_kept(tables: Tables, training: pd.Series) -> float:
    """Share of the heads with a role before pruning that one training with gates keeps."""
    kept = _usual(tables["kept"])
    for name in ("way", "penalty", "seed"):
        kept = kept[kept[name] == training[name]]
    heads = tables["heads"][["model", "layer", "head", "role"]]
    merged = kept.merge(heads, on=["model", "layer", "head"])
    return float(merged.query("role != @NO_ROLE")["kept"].mean())


def layers_with_roles(tables: Tables) -> int:
    """In how many layers the first student has a head with a role."""
    heads = tables["heads"]
    first = heads[heads["model"] == heads["model"].iloc[0]]
    return first.query("role != @NO_ROLE")["layer"].nunique()


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
    rows = _usual(tables["released"])
    whole = rows.query("way == @WHOLE and seed == 0").iloc[0]
    gates = rows.query("way == @GATES")
    tests = of_first(tables["tests"]).set_index("test")
    over, within = tests.loc["all"], tests.loc["all, within layers"]
    planned = of_first(tables["trainings"])["trainings"].sum()
    gated = tables["trainings"].query("way != @MISSING")
    found: Facts = {
        "whole": f"{whole['bleu']:.1f}",
        "gates": str(len(gates)), "seeds": str(gates["seed"].nunique()),
        "stored": str(of_first(gated)["trainings"].sum()), "planned": str(planned),
        "cross": str(gated.query("gated == 'cross' and way != @WHOLE")["trainings"].sum()),
        "reverse": str(gated.query("model == 'firefox-pt-en'")["trainings"].sum()),
        "kept_with": words.percent(over["with_role"]),
        "kept_without": words.percent(over["without"]),
        "survival_gap": f"{over['with_role'] - over['without']:.2f}",
        "p": f"{over['p']:.3f}", "p_within": f"{within['p']:.2f}",
    }  # fmt: skip
    for name, left in (("some", 17), ("few", 6)):
        row = near(rows, left)
        beside = rows[(rows["way"] == RANDOM) & (rows["penalty"] == row["penalty"])]
        found |= {
            name: str(int(row["kept"])), f"{name}_bleu": f"{row['bleu']:.1f}",
            f"{name}_gone": str(int(row["of"] - row["kept"])),
            f"{name}_change": words.signed(row["difference"], 1),
            f"{name}_interval": words.between(row["difference_low"], row["difference_high"], 1),
            f"{name}_random": f"{beside['bleu'].mean():.1f}" if len(beside) else "not trained",
            f"{name}_draws": str(len(beside)), f"{name}_saturated": words.percent(row["saturated"]),
        }  # fmt: skip
    claims = tables["claims"].query("corpus == 'released' and claim == 'voita-s6-choice-matters'")
    if len(claims):
        gap = claims.iloc[0]
        found["random_gap"] = words.signed(gap["value"], 1)
        found["random_gap_interval"] = words.between(gap["low"], gap["high"], 1)
    for each in paper().query("text == 'WMT'").to_dict("records"):
        found[f"paper_{each['left']}"] = words.signed(each["value"])
    return found | (_of_young(tables) if "points" in tables else {})


def _of_young(tables: Tables) -> Facts:
    """Ranges over the models trained here."""
    claims = tables["claims"].query("corpus != 'released'").set_index("claim")["value"]
    found: Facts = {"young_models": str(tables["points"]["model"].nunique())}
    for name, claim in (("half", "voita-f7-half"), ("fifth", "voita-f7-four-fifths"),
                        ("random", "voita-s6-choice-matters")):  # fmt: skip
        values = claims.loc[claim]
        low, high = words.signed(values.min(), 1), words.signed(values.max(), 1)
        found[f"young_{name}"] = f"{low} to {high}"
    return found
