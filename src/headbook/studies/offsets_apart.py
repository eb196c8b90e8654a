"""How published tables came to say which fixed offset they are about.

Until 2026-11-23 the positional share of a head was its largest over eleven offsets, zero among
them, so heads that look at their own token passed for positional ones. The runs behind the
published tables are not stored any more. These functions derive from a table what it can tell of
own token, neighbour and other offsets (`heads.positional.Place`), rename what it cannot, and leave
nothing that may be read as what it is not; `derive` applies them, and `run.json` says so. Cells are
text: what is not touched stays as it was published, digit by digit.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from headbook.heads.positional import Place, place_of
from headbook.heads.roles import Thresholds
from headbook.runs import record
from headbook.studies.kept_roles import ANY_NEARNESS, NEARNESS
from headbook.studies.results import Tables, folder
from headbook.types import UserError

ROLES = "11_confidence_and_roles"
ANY_OFFSET = "any_offset"
ANY_MOMENT = "first head at one offset, own token among them"
"""The names of shares and moments whose offset a table does not tell."""
SINCE = "2026-11-23T08:00"
"""From then on tables are published with the places apart."""
OLD = ["offset", "positional", "positional_low", "positional_high"]
NEW = [
    f"{place}{end}"
    for place in Place
    for end in (*(() if place is Place.OWN else ("_offset",)), "", "_low", "_high")
]
HOW = {
    ROLES: "Each head's published best of eleven offsets became its share at the own token, at a "
    "neighbour or farther away, whichever it is; the other two are empty. Tables without the "
    "offset call the share that of any offset. No head reached 90 % at any offset: the claims, "
    "which count heads that do, hold for the neighbour as they stand.",
    "15_three_languages": "Unchanged: no head reached 90 % at any offset, so none did at a "
    "neighbour.",
    "16_relevance": "A head's nearness to a role stands where the own token did not make it: where "
    "its best offset is a neighbour's, or where its margin or rare-word share alone is as near as "
    "its best offset. Elsewhere it is empty, and so is the claim of a model with such a head.",
    "18_pruning_the_encoder": "The share at the best offset is called that of any offset. Nearness "
    "to a role stands for models none of whose heads owed it to the own token or to an offset "
    "farther than the neighbour; for others it is called by what it was, and their claim is empty. "
    "No head reached 90 % at any offset before pruning, and none was counted after it: the counts "
    "of roles hold.",
    "26_when_heads_specialise": "The share called positional is called that of any offset: the "
    "tables do not tell which. The table offsets_told is from the page on confidence and roles.",
    "27_what_specialising_needs": "The share called positional is called that of any offset: the "
    "tables do not tell which.",
}
"""What was done with the tables of each study; it stands in their run.json."""


def derive(profile: str, root: Path | None = None) -> list[str]:
    """Rewrites the published tables of one profile, and returns the studies it rewrote.

    Tables that were rewritten before are left alone, and so are those published since.
    """
    done = []
    for study in HOW:
        where = folder(study, profile, root)
        run = json.loads((where / "run.json").read_text())
        if "derived" in run or run["date"] > SINCE:
            continue
        tables = _read(where)
        found = derived(study, tables, _read(folder(ROLES, profile, root))["scores"])
        for name, table in found.items():
            table.to_csv(where / f"{name}.csv", index=False)
        if study == ROLES:
            text = run["text_columns"]["scores"]
            text[text.index("offset")] = "neighbour_offset"
            text.append("other_offset")
        run["text_columns"] |= {name: ["model", "offset"] for name in found.keys() - tables.keys()}
        run["derived"] = {
            "date": record.now(), "commit": record.commit(), "by": __name__, "how": HOW[study],
            "withdrawn": _withdrawn(tables["claims"], found["claims"]),
        }  # fmt: skip
        (where / "run.json").write_text(json.dumps(run, indent=1) + "\n")
        done.append(study)
    return done


def _withdrawn(before: pd.DataFrame, after: pd.DataFrame) -> list[dict[str, str]]:
    """The rows of claims that lost their numbers, as they were: of the old measure."""
    changed = (before != after).any(axis=1)
    return before[changed].to_dict("records")


def _read(where: Path) -> Tables:
    return {
        path.stem: pd.read_csv(path, dtype=str, keep_default_na=False)
        for path in sorted(where.glob("*.csv"))
    }


def derived(study: str, tables: Tables, scores: pd.DataFrame) -> Tables:
    """A study's tables as they are to be; `scores` is that table of ROLES, already rewritten where
    this is another study.

    UserError where a head reached the threshold at some offset: its role needs a new measurement.
    """
    if study == ROLES:
        return _apart(tables)
    if study == "16_relevance":
        return _relevance(tables, scores)
    if study == "18_pruning_the_encoder":
        return _pruning(tables, untold_models(scores))
    if study == "26_when_heads_specialise":
        moments = tables["moments"].replace({"moment": {"first positional head": ANY_MOMENT}})
        told = offsets_told(scores)
        told = told[told["model"].isin(tables["checkpoints"]["model"])]
        return _renamed(tables) | {"moments": moments, "offsets_told": told}
    if study == "27_what_specialising_needs":
        return _renamed(tables)
    if (tables["counts"].query("role == 'positional'")["high"].astype(float) > 0).any():
        raise UserError("a head is positional at some offset; the counts must be made anew")
    return tables


def _apart(tables: Tables) -> Tables:
    scores = tables["scores"]
    best = pd.to_numeric(scores["positional"])
    if (best >= Thresholds().positional).any() or len(tables["roles"]):
        raise UserError("a head reached a threshold; the roles must be made anew")
    new = pd.DataFrame("", index=scores.index, columns=NEW)
    places = scores["offset"].map(lambda offset: place_of(int(offset)) if offset else "")
    for place in Place:
        here = places == place
        for old, name in zip(OLD, ("_offset", "", "_low", "_high"), strict=True):
            if f"{place}{name}" in NEW:
                new.loc[here, f"{place}{name}"] = scores.loc[here, old]
    at = scores.columns.get_loc("offset")
    kept = scores.drop(columns=OLD)
    apart = pd.concat([kept.iloc[:, :at], new, kept.iloc[:, at:]], axis=1)
    renamed = {"largest_positional": "largest_any_offset"}
    return tables | {
        "scores": apart,
        **{name: tables[name].rename(columns=renamed) for name in ("training", "choices")},
    }


def told_nearness(scores: pd.DataFrame) -> pd.DataFrame:
    """Model, layer, head and nearness of the trained encoder heads, NaN where it cannot be told.

    The share at a neighbour is at most that at the best offset: where another score is as near a
    role as that, the neighbour does not matter.
    """
    heads = _trained(scores)
    numbers = heads[[*Place, "margin", "rare"]].apply(pd.to_numeric)
    at = Thresholds()
    others = np.fmax(numbers["margin"] / at.syntactic_margin, numbers["rare"] / at.rare)
    best = numbers[[*Place]].max(axis=1) / at.positional
    told = numbers[Place.NEIGHBOUR].notna() | (others >= best)
    return heads[["model", "layer", "head"]].assign(nearness=np.fmax(others, best).where(told))


def untold_models(scores: pd.DataFrame) -> set[str]:
    """The models with a head whose nearness cannot be told."""
    found = told_nearness(scores)
    return set(found.loc[found["nearness"].isna(), "model"])


def offsets_told(scores: pd.DataFrame) -> pd.DataFrame:
    """The encoder head with the largest share at one offset of every model, trained, and where."""
    heads = _trained(scores)
    numbers = heads[[*Place]].apply(pd.to_numeric)
    offset = heads["neighbour_offset"].where(heads["neighbour_offset"] != "", heads["other_offset"])
    found = heads[["model", "layer", "head"]].assign(
        offset=offset.where(numbers[Place.OWN].isna(), "+0"), share=numbers.max(axis=1)
    )
    top = found.loc[found.groupby("model", sort=False)["share"].idxmax()]
    return top.assign(share=top["share"].map("{:.5g}".format)).reset_index(drop=True)


def _trained(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.query("kind == 'encoder' and update == 'best'")


def _relevance(tables: Tables, scores: pd.DataFrame) -> Tables:
    keys = ["model", "layer", "head"]
    told = tables["encoder"].merge(
        told_nearness(scores), on=keys, how="left", suffixes=("", "_told")
    )
    encoder = tables["encoder"].copy()
    encoder["nearness"] = encoder["nearness"].where(told["nearness_told"].notna().to_numpy(), "")
    claims = _blank(tables["claims"], "voita-f1a-follows-roles", untold_models(scores))
    return tables | {"encoder": encoder, "claims": claims}


def _pruning(tables: Tables, untold: set[str]) -> Tables:
    found = dict(tables)
    for name in ("pairs", "kept_and_closed"):
        table = tables[name].replace({"score": {"positional": ANY_OFFSET}})
        unknown = table["model"].isin(untold) & (table["score"] == NEARNESS)
        table.loc[unknown, "score"] = ANY_NEARNESS
        found[name] = table
    found["functions"] = tables["functions"].rename(
        columns={"mean_positional": f"mean_{ANY_OFFSET}", "mean_nearness": f"mean_{ANY_NEARNESS}"}
    )
    return found | {"claims": _blank(tables["claims"], "voita-f8-nearest-a-role-last", untold)}


def _blank(claims: pd.DataFrame, claim: str, models: set[str]) -> pd.DataFrame:
    """Without the numbers of one claim of these models: they cannot be told."""
    found = claims.copy()
    rows = (found["claim"] == claim) & found["model"].isin(models)
    found.loc[rows, ["value", "low", "high", "baseline"]] = ""
    return found


def _renamed(tables: Tables) -> Tables:
    ends = ("", "_low", "_high")
    names = {f"positional{end}": f"{ANY_OFFSET}{end}" for end in ends}
    return tables | {"checkpoints": tables["checkpoints"].rename(columns=names)}
