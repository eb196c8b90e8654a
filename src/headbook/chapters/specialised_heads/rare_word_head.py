"""Page 14: the rare-word head (Voita et al. 2019, section 5.3 and Figure 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads._rare_rivals import (
    GROUPS,
    ByGroup,
    chosen_head,
    groups_of,
    scored,
)
from headbook.chapters.specialised_heads._released import (
    EWT,
    TEXTS,
    Reading,
    in_their_language,
)
from headbook.chapters.specialised_heads._roles import ONE_OF_TWO, THRESHOLDS
from headbook.chapters.specialised_heads._targets import (
    TARGETS,
    Rivals,
    TargetChance,
    TargetShare,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.chapters.words import SMALL, TITLES
from headbook.claims.gates import NONE
from headbook.claims.ledger import load as ledger
from headbook.heads.measure import HeadMeasure, RatioSums
from headbook.heads.nulls import null_values
from headbook.heads.rare import RareChance, RareShare, RareUnit
from headbook.heads.tokens import REAL_TOKENS, counted_keys
from headbook.looking.passes import ranks_in
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind

NUMBER = 14
TITLE = "Does a head look for rare words?"
WORK = "voita2019"
KEYS = ("model", "text", "sentences", "nulls")

POINTING = ("the rarest", "one of the two rarest")
MAIN = (EWT, "ud-pud-pt")
"""The texts of the figure and the claims, by the language that a model reads."""
NULL_SENTENCES = 500
TEXT, VOCABULARY = "text", "vocabulary"
"""Sources of frequency ranks: counts in the text itself, or the order of the vocabulary."""
FIRST, EVERY = "first layer", "every layer"
CLAIMS = (("rarest", 0), ("two-rarest-short", ONE_OF_TWO), ("two-rarest-long", ONE_OF_TWO))
Sums = dict[str, RatioSums]


@dataclass(frozen=True)
class Parameters:
    """Released models, the texts they are measured on, and null networks per model (0: none)."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None
    nulls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """The best heads, every head, the best heads' targets, splits, nulls, claims."""
    given = in_their_language(parameters.models, parameters.texts, parameters.sentences)
    found = [(reading, reading.sums(_measures(reading))) for reading in given]
    tables = {
        "released": pd.DataFrame([row for each in found for row in _best(*each)]),
        "heads": pd.concat([_heads(*each) for each in found], ignore_index=True),
        "targets": pd.DataFrame([row for each in found for row in _targets(*each)]),
        "splits": pd.DataFrame([row for each in found for row in _splits(*each)]),
        "claims": claims_table(row for each in found for row in _claims(*each)),
    }
    if parameters.nulls:
        rows = [_nulls(reading.first(NULL_SENTENCES), parameters.nulls) for reading, _ in found]
        tables["nulls"] = pd.concat(rows, ignore_index=True)
    return tables


def _measures(reading: Reading) -> dict[str, HeadMeasure]:
    """The shares and their chance, by unit and source of ranks; the rivals, by unit."""
    ranks = ranks_in(reading.batches)
    rivals = Rivals(reading, ranks)
    split = partial(groups_of, ranks=ranks, characters=rivals.characters, edges=_edges(reading))
    found: dict[str, HeadMeasure] = {}
    for unit in RareUnit:
        for by, each in ((TEXT, ranks), (VOCABULARY, torch.arange(len(ranks)))):
            found[_name(unit, by)] = RareShare(each, unit)
            found[_name(unit, by, "chance")] = RareChance(each, unit)
        found[_name(unit, "targets")] = TargetShare(rivals, unit)
        found[_name(unit, "targets", "chance")] = TargetChance(rivals, unit)
    unit = RareUnit.SENTENCE
    found[_name(unit, "splits")] = ByGroup(RareShare(ranks, unit), split)
    found[_name(unit, "splits", "chance")] = ByGroup(RareChance(ranks, unit), split)
    return found


def _name(unit: RareUnit, of: str, chance: str = "") -> str:
    return f"{unit} {of} {chance}".strip()


def _edges(reading: Reading) -> list[int]:
    """Two lengths in tokens that cut the sentences into thirds."""
    sizes = [counted_keys(batch, Kind.ENCODER, REAL_TOKENS).sum(-1) for batch in reading.batches]
    ordered = torch.cat(sizes).sort().values.tolist()
    return [ordered[len(ordered) // 3], ordered[2 * len(ordered) // 3]]


def _best(reading: Reading, sums: Sums) -> Iterator[dict[str, object]]:
    """The head that points most at the two rarest, chosen on one half of the sentences and scored
    on the other, of the first layer and of all; beside it a head that points everywhere."""
    for unit in RareUnit:
        for ranks in (TEXT, VOCABULARY):
            rare, chance = sums[_name(unit, ranks)], sums[_name(unit, ranks, "chance")]
            for scope, layers in ((FIRST, 1), (EVERY, None)):
                head = chosen_head(rare, layers)
                for column, pointing in enumerate(POINTING):
                    value, low, high = scored(rare, head, column)
                    yield {
                        "unit": str(unit), "pointing": pointing, "scope": scope, "ranks": ranks,
                        **_at(head), "value": value, "low": low, "high": high,
                        "baseline": scored(chance, (0, 0), column)[0],
                        "kept": int(sums[_name(RareUnit.SENTENCE, ranks)].denominator[:, 0].sum()),
                        **reading.labels,
                    }  # fmt: skip


def _at(head: tuple[int, int] | None) -> dict[str, float | int]:
    """Layer and head, counted from one; no number where no sentence counted."""
    return {"layer": head[0] + 1, "head": head[1] + 1} if head else {
        "layer": float("nan"), "head": float("nan")}  # fmt: skip


def _heads(reading: Reading, sums: Sums) -> pd.DataFrame:
    """Shares of every head on all sentences, one row per head, a column per unit and pointing."""
    values = {unit: sums[_name(unit, TEXT)].ratio() for unit in RareUnit}
    layers, heads, _ = values[RareUnit.QUERY].shape
    index = pd.MultiIndex.from_product(
        [range(1, layers + 1), range(1, heads + 1)], names=["layer", "head"]
    )
    columns = {
        f"{pointing}, by {unit}": each[..., column].flatten().tolist()
        for unit, each in values.items()
        for column, pointing in enumerate(POINTING)
    }
    return pd.DataFrame(columns, index).reset_index().assign(kind="encoder", **reading.labels)


def _targets(reading: Reading, sums: Sums) -> Iterator[dict[str, object]]:
    """Targets of the best head of each unit, on the other half of the sentences."""
    for unit in RareUnit:
        head = chosen_head(sums[_name(RareUnit.SENTENCE, TEXT)])
        found, chance = sums[_name(unit, "targets")], sums[_name(unit, "targets", "chance")]
        for column, target in enumerate(TARGETS):
            value, low, high = scored(found, head, column)
            yield {
                "unit": str(unit), "target": target, **_at(head), "value": value, "low": low,
                "high": high, "baseline": scored(chance, (0, 0), column)[0], **reading.labels,
            }  # fmt: skip


def _splits(reading: Reading, sums: Sums) -> Iterator[dict[str, object]]:
    """The same head by sentence at one of the two rarest, split by what else it could follow."""
    unit = RareUnit.SENTENCE
    head = chosen_head(sums[_name(unit, TEXT)])
    found, chance = sums[_name(unit, "splits")], sums[_name(unit, "splits", "chance")]
    for at, (by, group) in enumerate(GROUPS):
        value, low, high = scored(found, head, at)
        yield {
            "unit": str(unit), "by": by, "group": group, **_at(head), "value": value,
            "low": low, "high": high, "baseline": scored(chance, (0, 0), at)[0],
            **reading.labels,
        }  # fmt: skip


def _nulls(reading: Reading, count: int) -> pd.DataFrame:
    """The best of as many heads in networks whose weights were permuted or drawn anew."""
    ranks = ranks_in(reading.batches)
    make = partial(_null_measures, ranks)
    found = null_values(reading.model.network, reading.batches, make, count)
    rows = [
        {"unit": str(unit), "pointing": pointing, "largest": float(found.largest(unit)[column]),
         "median": float(found.best(unit).median(0).values[column])}
        for unit in RareUnit
        for column, pointing in enumerate(POINTING)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(nulls=count, **reading.labels)


def _null_measures(ranks: Int[Tensor, " vocabulary"]) -> dict[str, HeadMeasure]:
    return {str(unit): RareShare(ranks, unit, replicates=0) for unit in RareUnit}


def _claims(reading: Reading, sums: Sums) -> Iterator[dict[str, object]]:
    """One row per claim, by query, for each model on the treebank of its language."""
    if reading.text not in MAIN:
        return
    model, target = reading.model.name, reading.model.languages[1] or ""
    rare, chance = (sums[_name(RareUnit.QUERY, TEXT, of)] for of in ("", "chance"))
    shares = rare.replicates()[..., ONE_OF_TWO]
    there = bool((shares[0] >= THRESHOLDS.rare).any())
    head = chosen_head(rare, 1)
    for claim, column in CLAIMS:
        name, baseline = f"voita-f5-{claim}", scored(chance, (0, 0), column)[0]
        yield released_claim(name, model, *scored(rare, head, column), baseline=baseline,
                             target=target, closed=_closed(name, there))  # fmt: skip
    name, layers = "voita-f5-first-layer", shares.amax(-1).argmax(-1).double() + 1
    yield released_claim(name, model, *interval(layers), target=target,
                         closed=_closed(name, there))  # fmt: skip


def _closed(claim: str, there: bool) -> str:
    """Claims about a rare-word head need one; that there is one is the claim of the others."""
    needs = "present" in ledger().claim(claim).gates
    return "present: no rare-word head" if needs and not there else NONE


def paper() -> dict[str, float]:
    """Shares of the paper by what is pointed at, from the ledger."""
    claims = ("voita-f5-rarest", "voita-f5-two-rarest-short")
    pairs = zip(POINTING, claims, strict=True)
    return {pointing: ledger().claim(claim).paper[0].values[0] for pointing, claim in pairs}


def trained(tables: Tables) -> pd.DataFrame:
    """Models trained here: mean over models of the best head of all layers, and their range."""
    rows = tables["chosen"].query("scope == @EVERY and update == 'best'").copy()
    rows["pointing"] = "the " + rows["pointing"]
    rows["pointing"] = rows["pointing"].replace("the one of two rarest", POINTING[ONE_OF_TWO])
    groups = rows.groupby(["unit", "pointing"], sort=False)
    frame = groups["value"].agg(value="mean", low="min", high="max")
    frame["baseline"] = groups["chance"].mean()
    return frame.reset_index().assign(model=SMALL, models=rows["model"].nunique())


def beside(tables: Tables) -> pd.DataFrame:
    """Rows of the figure: the best head of each model on the treebank of its language (or its
    first text), models trained here, the paper's values, chance, and the best of the nulls."""
    rows = tables["released"].query("scope == @EVERY and ranks == @TEXT")
    if set(rows["text"]) & set(MAIN):
        rows = rows[rows["text"].isin(MAIN)]
    rows = rows[rows["text"] == rows["model"].map(rows.groupby("model")["text"].first())].copy()
    if "nulls" in tables:
        keys = ["model", "text", "unit", "pointing"]
        rows = rows.merge(tables["nulls"][[*keys, "largest"]], on=keys, how="left")
    rows["model"] = rows["model"].replace(TITLES)
    frame = pd.concat([rows, trained(tables)] if "chosen" in tables else [rows], ignore_index=True)
    first = frame["model"] == rows["model"].iloc[0]
    frame["paper"] = frame["pointing"].map(paper()).where(first)
    frame["what"] = frame["pointing"] + ",\nby " + frame["unit"]
    return frame


def summary(tables: Tables) -> pd.DataFrame:
    """Best head / chance in per cent, one row per model, text and source of ranks."""
    rows = tables["released"].dropna(subset="value")  # few sentences may have no rare word
    cells = rows.assign(
        column=rows["pointing"] + ", by " + rows["unit"],
        model=rows["model"].replace(TITLES) + ", " + rows["text"].replace(TEXTS),
        cell=[f"{words.head(int(row.layer), int(row.head))} {100 * row.value:.0f}"
              f" / {100 * row.baseline:.0f}" for row in rows.itertuples()],
    )  # fmt: skip
    keys = ["model", "scope", "ranks"]
    wide = cells.pivot(index=keys, columns="column", values="cell")
    return wide.loc[:, list(dict.fromkeys(cells["column"]))].reset_index().rename_axis(columns=None)


def pointed_at(tables: Tables) -> pd.DataFrame:
    """The best head's targets / those of a uniform head, in per cent."""
    targets = tables["targets"]["target"].str.replace("commonest", "most frequent")
    return _wide(tables["targets"].assign(target=targets), "target")


def split_up(tables: Tables) -> pd.DataFrame:
    """The best head at one of the two rarest / chance, in per cent, split by the rivals."""
    rows = tables["splits"]
    return _wide(rows.assign(group=rows["by"] + ": " + rows["group"]), "group")


def _wide(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """One column per model and head; of one unit alone, without saying which."""
    rows = rows[rows["text"].isin(MAIN)] if set(rows["text"]) & set(MAIN) else rows
    rows = rows.dropna(subset="value")
    cells = rows.assign(
        model=[f"{TITLES.get(row.model, row.model)} {words.head(int(row.layer), int(row.head))}"
               for row in rows.itertuples()],
        cell=[f"{100 * row.value:.0f} / {100 * row.baseline:.0f}" for row in rows.itertuples()],
        by="by " + rows["unit"],
    )  # fmt: skip
    index = [what, "by"] if cells["by"].nunique() > 1 else [what]
    wide = cells.pivot(index=index, columns="model", values="cell").fillna("")
    order = cells.drop_duplicates(index).set_index(index).index
    return (
        wide.loc[order, list(dict.fromkeys(cells["model"]))].reset_index().rename_axis(columns=None)
    )


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the treebank of a model's language where it is there."""
    found: Facts = {}
    shown = beside(tables)
    for row in shown.to_dict("records"):
        key = f"{words.prefix(row['model'])}_{_KEYS[row['pointing']]}_{row['unit']}"
        found[key] = words.percent(row["value"])
        found[f"{key}_chance"] = words.percent(row["baseline"])
        if row["model"] != SMALL:
            found[f"{key}_long"] = words.estimate(row["value"], row["low"], row["high"])
            found[f"{key}_head"] = words.head(int(row["layer"]), int(row["head"]))
            found[f"{words.prefix(row['model'])}_sentences"] = words.count(row["kept"])
        else:
            found["trained_models"] = words.count(row["models"])
        if pd.notna(row.get("largest")):
            found[f"{key}_null"] = words.percent(row["largest"])
    texts = dict(zip(shown["model"], shown["text"], strict=True))
    for row in tables["targets"].to_dict("records"):
        title = TITLES.get(row["model"], row["model"])
        if row["text"] == texts.get(title):
            name = _TARGET_KEYS[TARGETS.index(row["target"])]
            key = f"{words.prefix(title)}_at_{name}_{row['unit']}"
            found[key] = words.percent(row["value"])
            found[f"{key}_chance"] = words.percent(row["baseline"])
    for pointing, value in paper().items():
        found[f"paper_{_KEYS[pointing]}"] = words.percent(value)
    long = ledger().claim("voita-f5-two-rarest-long").paper[0].values[0]
    found["paper_long"] = words.percent(long)
    if "nulls" in tables:
        found["null_count"] = str(int(tables["nulls"]["nulls"].iloc[0]))
    return found


_KEYS = {"the rarest": "rarest", "one of the two rarest": "two"}
_TARGET_KEYS = ("near", "near_rarest", "near_commonest", "noun", "noun_rarest", "noun_commonest",
                "longest", "rare_not_long", "long_not_rare")  # fmt: skip
