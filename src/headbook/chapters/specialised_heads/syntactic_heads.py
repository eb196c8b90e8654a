"""Page 13: heads that follow a syntactic relation (Voita et al. 2019, Figure 4 and Table 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from torch import Tensor

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads import _kinds_of_subjects as subjects
from headbook.chapters.specialised_heads._head_tables import verbs_lead
from headbook.chapters.specialised_heads._released import ENGLISH, EWT, TEXTS, Reading, readings
from headbook.chapters.specialised_heads._roles import NAMES, paper_accuracies
from headbook.chapters.tables import claim_row, loaded_labels
from headbook.chapters.words import SMALL, TITLES
from headbook.claims.verdict import COLUMNS
from headbook.heads.measure import HeadMeasure, RatioSums, best_head, percentiles
from headbook.heads.nulls import null_values
from headbook.heads.offset_baseline import OffsetShare, offset_accuracies, offset_baseline
from headbook.heads.syntactic import SyntacticAccuracy, best_accuracies
from headbook.heads.tag_rules import TagRuleShare, tag_baseline
from headbook.runs.store import Store
from headbook.trees import RELATION_DIRECTIONS

NUMBER = 13
TITLE = "Do heads follow syntax?"
WORK = "voita2019"
KEYS = ("model", "text", "sentences", "nulls")

NULL_SENTENCES = 500
"""Sentences of a text that null networks are measured on."""


@dataclass(frozen=True)
class Parameters:
    """Released models, the texts they are measured on, and null networks per model (0: none)."""

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None
    nulls: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """The best heads beside offsets and part-of-speech rules, on each kind of subject; every head,
    nulls, claims."""
    found = [
        (reading, reading.sums(_measures(reading)))
        for reading in readings(parameters.models, parameters.texts, parameters.sentences)
    ]
    tables = {
        "released": pd.concat([_best(*each) for each in found], ignore_index=True),
        "heads": pd.concat([_heads(*each) for each in found], ignore_index=True),
        "subjects": pd.DataFrame([row for each in found for row in subjects.rows(*each)]),
        "claims": pd.DataFrame([row for each in found for row in _claims(*each)], columns=COLUMNS),
    }
    if parameters.nulls:
        rows = [_nulls(reading.first(NULL_SENTENCES), parameters.nulls) for reading, _ in found]
        tables["nulls"] = pd.concat(rows, ignore_index=True)
    return tables


def _measures(reading: Reading) -> dict[str, HeadMeasure]:
    return {
        "heads": SyntacticAccuracy(reading.trees),
        "offsets": OffsetShare(reading.trees),
        "rules": TagRuleShare(reading.trees),
        **subjects.measures(reading),
    }


def _best(reading: Reading, sums: dict[str, RatioSums]) -> pd.DataFrame:
    """One row per relation-direction. The best head, offset and rule are each chosen on one half
    of the sentences and scored on the other, margins on the same resamples."""
    best, offset = best_head(sums["heads"]), offset_baseline(sums["offsets"])
    rule, margins = tag_baseline(sums["rules"]), _margins(sums)
    columns = {
        "layer": best.layer + 1, "head": best.head + 1, "value": best.score, "low": best.low,
        "high": best.high, "baseline": offset.accuracy, "baseline_offset": offset.offset,
        "rule": rule.accuracy, "arcs": sums["heads"].denominator[:, 0, 0, 0].sum(0).long(),
    }  # fmt: skip
    for name, each in margins.items():
        low, high = percentiles(each[1:])
        columns |= {name: each[0], f"{name}_low": low, f"{name}_high": high}
    frame = pd.DataFrame({name: each.tolist() for name, each in columns.items()})
    frame.insert(0, "relation", NAMES)
    return frame.assign(rule_name=rule.names, **reading.labels)


def _margins(sums: dict[str, RatioSums]) -> dict[str, Tensor]:
    """Best head minus best offset, and minus best rule, [1 + replicate, 8] on the scoring half."""
    heads, columns = best_accuracies(sums["heads"]), torch.arange(len(RELATION_DIRECTIONS))
    rules = sums["rules"].replicates(1)[:, tag_baseline(sums["rules"]).rule, columns]
    return {"margin": heads - offset_accuracies(sums["offsets"]), "over_rule": heads - rules}


def _heads(reading: Reading, sums: dict[str, RatioSums]) -> pd.DataFrame:
    """Accuracy of every head on all sentences, one row per head, a column per relation."""
    values = sums["heads"].ratio()
    layers, heads, _ = values.shape
    index = pd.MultiIndex.from_product(
        [range(1, layers + 1), range(1, heads + 1)], names=["layer", "head"]
    )
    frame = pd.DataFrame(values.flatten(0, 1).tolist(), index, columns=list(NAMES))
    return frame.reset_index().assign(kind="encoder", **reading.labels)


def _nulls(reading: Reading, count: int) -> pd.DataFrame:
    """The best of as many heads in networks whose weights were permuted or drawn anew."""
    make = partial(_null_measures, reading)
    found = null_values(reading.model.network, reading.batches, make, count)
    largest, typical = found.largest("heads"), found.best("heads").median(0).values
    frame = pd.DataFrame({"relation": NAMES, "largest": largest.tolist(),
                          "median": typical.tolist()})  # fmt: skip
    return frame.assign(nulls=count, **reading.labels)


def _null_measures(reading: Reading) -> dict[str, HeadMeasure]:
    return {"heads": SyntacticAccuracy(reading.trees, replicates=0)}


def _claims(reading: Reading, sums: dict[str, RatioSums]) -> Iterator[dict[str, object]]:
    """One row per claim for each model on EWT; other texts are shown and not counted."""
    if reading.text != EWT:
        return
    labels = loaded_labels(reading.model.name, reading.model.languages[1] or "")
    best = _best(reading, sums)
    for row, (relation, direction) in zip(
        best.to_dict("records"), RELATION_DIRECTIONS, strict=True
    ):
        numbers = {name: row[name] for name in ("value", "low", "high", "baseline")}
        claim = f"voita-t1-{relation}-{direction.replace('_', '-')}"
        yield claim_row(claim, labels, **numbers)
    yield claim_row("voita-f4-verb-relations-strongest", labels, *verbs_lead(best))


def trained(tables: Tables) -> pd.DataFrame:
    """Models trained here on the gold trees of EWT: mean over models, smallest and largest."""
    rows = tables["best"].query("text == @EWT").copy()
    names = dict(zip(RELATION_DIRECTIONS, NAMES, strict=True))
    pairs = zip(rows["relation"], rows["direction"], strict=True)
    rows["relation"] = [names[pair] for pair in pairs]
    best = rows[rows["update"] == "best"].groupby("relation", sort=False)["value"]
    untrained = rows[rows["update"] != "best"].groupby("relation", sort=False)["value"]
    frame = best.agg(value="mean", low="min", high="max").assign(untrained=untrained.mean())
    return frame.reset_index().assign(model=SMALL, models=rows["model"].nunique())


def beside(tables: Tables, text: str = EWT) -> pd.DataFrame:
    """Rows of the figure: released models on a text, models trained here, the paper's values.

    A model that was not measured on this text stands there with the first that it was measured on.
    The paper's value and the baselines stand in the first model's rows only.
    """
    released = tables["released"]
    measured = set(released.query("text == @text")["model"])
    others = released[~released["model"].isin(measured)].drop_duplicates(["model", "relation"])
    released = pd.concat([released.query("text == @text"), others])
    first = released["model"].iloc[0]
    known = paper_accuracies().query("text == 'WMT en-ru'").set_index("relation")["value"]
    frame = released.assign(paper=released["relation"].map(known))
    frame.loc[frame["model"] != first, ["paper", "baseline", "rule"]] = float("nan")
    frame["model"] = frame["model"].replace(TITLES)
    return pd.concat([frame, trained(tables)] if "best" in tables else [frame], ignore_index=True)


def summary(tables: Tables) -> pd.DataFrame:
    """The best heads of all models beside offset and rule, one row per relation and text.

    Offset and rule are ranges where they differ between models.
    """
    rows = tables["released"]
    rows = rows.assign(
        text=rows["text"].replace(TEXTS) + " (" + rows["sentences"].map(words.count) + ")",
        model=rows["model"].replace(TITLES),
        head=[f"{words.head(row.layer, row.head)} {words.percent(row.value)}"
              for row in rows.itertuples()],
    )  # fmt: skip
    beside = rows.groupby(["relation", "text"], sort=False).agg(
        offset=("baseline", words.percents), rule=("rule", words.percents)
    )
    heads = rows.pivot(index=["relation", "text"], columns="model", values="head")
    found = beside.join(heads[list(dict.fromkeys(rows["model"]))]).fillna("")
    return found.loc[list(NAMES)].reset_index()


def controls(tables: Tables, text: str = EWT) -> pd.DataFrame:
    """The first model's best heads beside nulls, in per cent, and the rule's name."""
    rows = tables["released"].query("text == @text")
    rows = rows[rows["model"] == rows["model"].iloc[0]].set_index("relation")
    nulls = tables["nulls"].query("text == @text").set_index(["model", "relation"])["largest"]
    untrained = trained(tables).set_index("relation")["untrained"]
    frame = pd.DataFrame({
        "best head": rows["value"].map(words.percent),
        "best of the nulls": nulls.loc[rows["model"].iloc[0]].map(words.percent),
        "trained here, before training": untrained.map(words.percent),
        "best offset": rows["baseline"].map(words.percent)
        + rows["baseline_offset"].map(" ({:+d})".format),
        "best rule": rows["rule"].map(words.percent) + " (" + rows["rule_name"] + ")",
    })  # fmt: skip
    return frame.loc[list(NAMES)].reset_index()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: those of EWT where they are there, else of the first text."""
    released = tables["released"]
    text = EWT if EWT in set(released["text"]) else released["text"].iloc[0]
    rows = released[(released["text"] == text) & (released["model"] == "firefox-en-pt")]
    found: Facts = {"sentences": words.count(rows["sentences"].iloc[0])}
    for row in rows.to_dict("records"):
        key = _key(row["relation"])
        found[f"{key}"] = words.estimate(row["value"], row["low"], row["high"])
        found[f"{key}_short"] = words.percent(row["value"])
        found[f"{key}_offset"] = words.percent(row["baseline"])
        found[f"{key}_rule"] = words.percent(row["rule"])
        found[f"{key}_head"] = words.head(row["layer"], row["head"])
    ours = released[released["model"] == words.OURS]
    for row in ours.query("text == @text").to_dict("records"):
        key = f"{_key(row['relation'])}_ours"
        found[key] = words.percent(row["value"])
        found[f"{key}_head"] = words.head(row["layer"], row["head"])
        found[f"{key}_margin"] = words.points_estimate(
            row["margin"], row["margin_low"], row["margin_high"]
        )
    for row in ours[ours["text"] == ENGLISH].to_dict("records"):
        found[f"{_key(row['relation'])}_ours_parallel"] = words.points_estimate(
            row["margin"], row["margin_low"], row["margin_high"]
        )
    for row in paper_accuracies().query("text == 'WMT en-ru'").to_dict("records"):
        found[f"{_key(row['relation'])}_paper"] = words.percent(row["value"])
        found[f"{_key(row['relation'])}_paper_offset"] = words.percent(row["baseline"])
    if "best" in tables:
        for row in trained(tables).to_dict("records"):
            found[f"{_key(row['relation'])}_trained"] = words.percent(row["value"])
            found["trained_models"] = str(row["models"])
    if "subjects" in tables:
        of_student = tables["subjects"].query("text == @text and model == 'firefox-en-pt'")
        for row in of_student.to_dict("records"):
            key = f"{_key(row['relation'])}_{row['subjects'].split()[0]}"
            found[key] = words.percent(row["value"])
            found[f"{key}_offset"] = words.percent(row["baseline"])
    if "nulls" in tables:
        nulls = tables["nulls"].query("model == 'firefox-en-pt' and text == @text")
        found |= {"null": words.percent(nulls["largest"].max()),
                  "null_count": str(int(nulls["nulls"].iloc[0]))}  # fmt: skip
    return found


def _key(relation: str) -> str:
    return relation.replace(" → ", "_")
