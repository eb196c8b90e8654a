"""Page 54: probes of attention weights (Clark et al. 2019, sections 4.2 and 5)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._probed import (
    CONTROL,
    FITTED_ON,
    HEAD,
    NO_WEIGHTS,
    REDRAWN,
    RELEASED,
    TASK,
    Found,
    HeadProbes,
    Known,
    Sample,
    label_probes,
    reduced,
    sample,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.claims.gates import RELEASED as CORPUS
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.load import load
from headbook.looking.states import word_maps
from headbook.models.loaded import Loaded
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.types import Kind, UserError

NUMBER = 54
TITLE = "What can be read off attention?"
WORK = "clark2019"
KEYS = ("model", "text", "sentences", "target", "features", "weights", "task", "relation")

JUDGED = "ud-ewt"
TEXTS = {"ewt-sample": "EWT sample", JUDGED: "EWT", "ud-pud-en": "PUD"}
SAMPLE = "ewt-sample"
OFFSETS = (-3, -2, -1, 1, 2, 3, 4)
RELATIONS = {
    "all": "all", "det": "det", "dobj": "obj", "nsubj": "nsubj", "nmod:poss": "nmod:poss",
    "aux": "aux", "aux:pass": "aux:pass", "amod": "amod", "advmod": "advmod", "mark": "mark",
    "ccomp": "ccomp", "compound": "compound", "case": "case", "flat": "flat (in names)",
}  # fmt: skip
"""Relations as trees label them, and as the page names them."""
PAPER = {
    "all": (0.345, 0.263), "det": (0.943, 0.517), "dobj": (0.868, 0.400), "nsubj": (0.585, 0.455),
    "nmod:poss": (0.805, 0.477), "aux": (0.811, 0.715), "amod": (0.756, 0.683),
    "advmod": (0.488, 0.402), "mark": (0.507, 0.145), "ccomp": (0.488, 0.124),
    "compound": (0.704, 0.702),
}  # fmt: skip
"""Table 1 of the work, BERT-base on the Penn Treebank: best head and best offset. Its row of
passive auxiliaries is left out: paper and released notebook disagree on it."""
SINGLE, RIGHT, OFFSET = "best single head", "next word", "best offset"
WEIGHTS, WITH_WORDS = "weights", "weights + words"
DISTANCE, DISTANCE_WORDS = "distance", "distance + words"
REDRAWN_WORDS = f"{WITH_WORDS}, {REDRAWN}"
ORDER = (RIGHT, DISTANCE, SINGLE, f"{WEIGHTS}, {REDRAWN}", WEIGHTS, REDRAWN_WORDS, DISTANCE_WORDS,
         WITH_WORDS)  # fmt: skip
PAPER_UAS = {RIGHT: 0.26, SINGLE: 0.345, WEIGHTS: 0.61, REDRAWN_WORDS: 0.30, DISTANCE_WORDS: 0.58,
             WITH_WORDS: 0.77}  # fmt: skip
"""Table 3 of the work, word vectors being GloVe's; its best single head is of Table 1."""
SECOND_HAND = {"ewt": 0.614, "pud": 0.637}
"""The probe of weights on BERT-base and UD in 2026, from a note that was not checked."""


@dataclass(frozen=True)
class Parameters:
    """Models, treebanks, sentences scored (a third of them on a text that is divided), and whether
    word vectors, control tasks and networks drawn anew are probed too, which takes minutes."""

    models: tuple[str, ...] = ("minilm", "firefox-en-pt")
    texts: tuple[str, ...] = (SAMPLE,)
    sentences: int = 400
    whole: bool = False


def compute(parameters: Parameters, store: Store) -> Tables:
    """Results of each probe, the best head of each relation, and claims."""
    if parameters.sentences < 30:
        raise UserError(
            f"sentences is {parameters.sentences}; give 30 or more, to fit and to score"
        )
    samples = [sample(text, parameters.sentences) for text in parameters.texts]
    probes, relations, claims = [], [], []
    for name in parameters.models:
        model, known = load(name), defaultdict(dict)
        for of in samples:
            found = list(_found(model, of, parameters.whole, known))
            labels = {"model": name, "text": of.name, "sentences": len(of.split.scored)}
            probes += [{**labels, **_row(each)} for each in found if isinstance(each, Found)]
            relations += [{**labels, **each} for each in found if not isinstance(each, Found)]
            if of.name == JUDGED and parameters.whole:
                claims += _claims(name, found)
    return {
        "probes": pd.DataFrame(probes),
        "relations": pd.DataFrame(relations),
        "claims": claims_table(claims),
    }


def _row(found: Found) -> dict[str, object]:
    value, low, high = interval(found.replicates)
    return {"target": found.target, "features": found.features, "weights": found.weights,
            "task": found.task, "value": value, "low": low, "high": high}  # fmt: skip


def _found(
    model: Loaded, of: Sample, whole: bool, known: dict[tuple[str, str], Known]
) -> Iterator[Found | dict[str, object]]:
    """Every probe of one model on one sample, and its rows of relations."""
    fitted = FITTED_ON.get(of.name, of.name)
    maps = word_maps(model, of.trees)
    vectors = reduced(of, maps)
    heads = HeadProbes(of, maps, vectors, known[fitted, RELEASED])
    drawn = None
    if whole:
        with without_knowledge(model.network, Null.DRAWN, 0):
            others = word_maps(model, of.trees)
        drawn = HeadProbes(of, others, vectors, known[fitted, REDRAWN])
    yield from _baselines(heads)
    yield from _of_heads(heads, drawn, whole)
    yield from label_probes(of, maps, vectors, RELEASED, whole=whole)
    if drawn:
        yield from label_probes(of, drawn.maps, vectors, REDRAWN, whole=False)
    yield from _relations(heads, drawn, _heads_per_layer(model))


def _baselines(heads: HeadProbes) -> Iterator[Found]:
    yield Found(HEAD, RIGHT, NO_WEIGHTS, TASK, heads.over(heads.offset(2, 1)))
    step = max(OFFSETS, key=lambda each: float(heads.offset(0, each).mean()))
    yield Found(HEAD, OFFSET, NO_WEIGHTS, TASK, heads.over(heads.offset(2, step)))
    fitted, scored = heads.by_head
    best = scored[:, fitted.mean(0).argmax()]
    yield Found(HEAD, SINGLE, RELEASED, TASK, heads.over(best))


def _of_heads(heads: HeadProbes, drawn: HeadProbes | None, whole: bool) -> Iterator[Found]:
    yield Found(HEAD, WEIGHTS, RELEASED, TASK, heads.probe(False, False, TASK))
    yield Found(HEAD, DISTANCE, NO_WEIGHTS, TASK, heads.probe(True, False, TASK))
    if not whole or drawn is None:
        return
    wordless, worded = (heads.probe(False, each, CONTROL) for each in (False, True))
    yield Found(HEAD, WEIGHTS, RELEASED, CONTROL, wordless)
    yield Found(HEAD, WITH_WORDS, RELEASED, CONTROL, worded)
    yield Found(HEAD, WITH_WORDS, RELEASED, TASK, heads.probe(False, True, TASK))
    yield Found(HEAD, DISTANCE_WORDS, NO_WEIGHTS, TASK, heads.probe(True, True, TASK))
    yield Found(HEAD, WEIGHTS, REDRAWN, TASK, drawn.probe(False, False, TASK))
    yield Found(HEAD, WITH_WORDS, REDRAWN, TASK, drawn.probe(False, True, TASK))


def _relations(
    heads: HeadProbes, drawn: HeadProbes | None, per_layer: list[int]
) -> Iterator[dict[str, object]]:
    """The best head of each relation, from the dependent to its head, chosen on fitted sentences
    and scored on others; margins over the best offset, chosen alike, on the same resamples."""
    fitted_of, scored_of = heads.relations(0), heads.relations(2)
    count = sum(per_layer)
    for relation in RELATIONS:
        here = np.full(len(fitted_of), True) if relation == "all" else fitted_of == relation
        there = torch.from_numpy(
            np.full(len(scored_of), True) if relation == "all" else scored_of == relation
        )
        if not here.any() or there.sum() < 2:
            continue
        fitted, scored = heads.by_head
        best = int(fitted[here, :count].mean(0).argmax())
        value = heads.over(scored[:, best], there)
        step = max(OFFSETS, key=lambda each, on=here: float(heads.offset(0, each)[on].mean()))
        baseline = heads.over(heads.offset(2, step), there)
        row = _numbers(value, baseline)
        if drawn is not None:
            known, other = drawn.by_head
            best_drawn = int(known[here, :count].mean(0).argmax())
            row["redrawn"] = float(heads.over(other[:, best_drawn], there)[0])
        layer = int(np.searchsorted(np.cumsum(per_layer), best, side="right"))
        yield {"relation": relation, "layer": layer + 1, "head": best - sum(per_layer[:layer]) + 1,
               **row, "offset": step, "arcs": int(there.sum())}  # fmt: skip


def _numbers(value: np.ndarray, baseline: np.ndarray) -> dict[str, float]:
    found, low, high = interval(value)
    margin, below, above = interval(value - baseline)
    return {"value": found, "low": low, "high": high, "baseline": float(baseline[0]),
            "margin": margin, "margin_low": below, "margin_high": above}  # fmt: skip


def _heads_per_layer(model: Loaded) -> list[int]:
    return [block.heads for kind, _, block in model.network.attentions() if kind is Kind.ENCODER]


def _claims(model: str, found: list) -> Iterator[dict[str, object]]:
    probes = {(p.features, p.weights, p.task): p.replicates for p in found
              if isinstance(p, Found) and p.target == HEAD}  # fmt: skip
    alone, worded = probes[WEIGHTS, RELEASED, TASK], probes[WITH_WORDS, RELEASED, TASK]
    selective = alone - probes[WEIGHTS, RELEASED, CONTROL]
    single = probes[SINGLE, RELEASED, TASK]
    values = {
        "clark-no-single-head": single,
        "clark-probe-attention": alone,
        "clark-probe-over-head": alone - single,
        "clark-probe-words": worded - probes[DISTANCE_WORDS, NO_WEIGHTS, TASK],
        "clark-probe-learnt": worded - probes[WITH_WORDS, REDRAWN, TASK],
        "probe-selective": selective,
        "probe-words-less-selective": selective - worded + probes[WITH_WORDS, RELEASED, CONTROL],
    }
    for claim, replicates in values.items():
        yield released_claim(claim, model, *interval(replicates), corpus=CORPUS)
    rows = {row["relation"]: row for row in found if isinstance(row, dict)}
    for relation in ("det", "dobj", "nsubj", "nmod:poss"):
        row, short = rows[relation], relation.removeprefix("nmod:")
        baseline = row["baseline"]
        ends = (baseline + row["margin_low"], baseline + row["margin_high"])
        yield released_claim(f"clark-relation-{short}", model, row["value"], *ends,
                             baseline=baseline, corpus=CORPUS)  # fmt: skip


def by_probe(tables: Tables, text: str = JUDGED) -> pd.DataFrame:
    """Rows of the figure: accuracy of probes of heads, one row per probe and model, the control
    task's beside it, and the paper's value in the first model's rows."""
    rows = _of(tables, "probes", text)
    rows = rows[rows["target"] == HEAD]
    control = rows[rows["task"] == CONTROL].set_index(["model", "features", "weights"])["value"]
    rows = rows[(rows["task"] == TASK) & (rows["features"] != OFFSET)]
    keys = zip(rows["model"], rows["features"], rows["weights"], strict=True)
    rows = rows.assign(
        control=[control.get(key, np.nan) for key in keys],
        probe=[_named(*each) for each in zip(rows["features"], rows["weights"], strict=True)],
    )
    first = rows["model"] == rows["model"].iloc[0]
    rows["paper"] = rows["probe"].map(PAPER_UAS).where(first)
    order = {name: place for place, name in enumerate(ORDER)}
    rows = rows.sort_values("probe", key=lambda names: names.map(order), kind="stable")
    return rows.assign(model=rows["model"].replace(words.TITLES))


def _of(tables: Tables, name: str, text: str) -> pd.DataFrame:
    """A table's rows of a text, or of the first one where that was not measured."""
    rows = tables[name].fillna({"weights": NO_WEIGHTS})
    shown = text if text in set(rows["text"]) else rows["text"].iloc[0]
    return rows[rows["text"] == shown]


def _named(features: str, weights: str) -> str:
    return f"{features}, {REDRAWN}" if weights == REDRAWN else features


def by_relation(tables: Tables, text: str = JUDGED) -> pd.DataFrame:
    """Best head of each relation and model, best offset, the redrawn network's best, and the
    paper's values."""
    rows = _of(tables, "relations", text)
    first = rows["model"] == rows["model"].iloc[0]
    rows["paper"] = rows["relation"].map({name: each[0] for name, each in PAPER.items()})
    rows.loc[~first, ["paper", "baseline"]] = np.nan
    rows["relation"] = rows["relation"].map(RELATIONS)
    return rows.assign(model=rows["model"].replace(words.TITLES))


def relation_table(tables: Tables) -> pd.DataFrame:
    """Best head / offset / best of the redrawn network in per cent, a column per model and text."""
    rows = tables["relations"]
    redrawn = rows["redrawn"] if "redrawn" in rows else pd.Series(np.nan, rows.index)
    cells = rows.assign(
        column=rows["model"].replace(words.TITLES) + ", " + rows["text"].replace(TEXTS),
        cell=[f"{words.head(row.layer, row.head)} {100 * row.value:.0f} / {100 * row.baseline:.0f}"
              + ("" if np.isnan(null) else f" / {100 * null:.0f}")
              for row, null in zip(rows.itertuples(), redrawn, strict=True)],
    )  # fmt: skip
    wide = cells.pivot(index="relation", columns="column", values="cell")
    wide = wide.reindex([name for name in RELATIONS if name in wide.index])
    wide = wide[list(dict.fromkeys(cells["column"]))].fillna("")
    return wide.rename(index=RELATIONS).reset_index().rename_axis(columns=None)


def selectivity(tables: Tables, text: str = JUDGED) -> pd.DataFrame:
    """Accuracy / accuracy on the control task of probes of labels, in per cent: one row per label
    and features, a column per model; networks drawn anew have no control task."""
    rows = _of(tables, "probes", text)
    rows = rows[rows["target"] != HEAD]
    named = [_named(*each) for each in zip(rows["features"], rows["weights"], strict=True)]
    wide = rows.assign(features=named).pivot_table(
        index=["target", "features", "model"], columns="task", values="value", sort=False
    )
    drawn = wide.get(CONTROL, pd.Series(np.nan, wide.index))
    cells = [f"{100 * task:.0f}" + ("" if np.isnan(other) else f" / {100 * other:.0f}")
             for task, other in zip(wide[TASK], drawn, strict=True)]  # fmt: skip
    table = pd.Series(cells, wide.index).unstack("model", sort=False).fillna("")
    table = table.sort_values(list(table.columns), kind="stable").sort_index(
        level="target", sort_remaining=False, kind="stable"
    )
    return table.rename(columns=words.TITLES).reset_index().rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the treebank's test part where it is there."""
    rows = _of(tables, "probes", JUDGED)
    scored = rows["sentences"].iloc[0]
    found: Facts = {"sentences": words.count(scored), "fitted": words.count(2 * scored)}
    for row in rows.to_dict("records"):
        key = words.key(row["model"], row["target"], _named(row["features"], row["weights"]))
        key += "_control" if row["task"] == CONTROL else ""
        found[key] = words.percent(row["value"])
        found[f"{key}_estimate"] = words.estimate(row["value"], row["low"], row["high"])
    for row in _of(tables, "relations", JUDGED).to_dict("records"):
        key = words.key(row["model"], row["relation"])
        found[key] = words.percent(row["value"])
        found[f"{key}_offset"] = words.percent(row["baseline"])
        found[f"{key}_margin"] = words.points(row["margin"])
        found[f"{key}_head"] = words.head(row["layer"], row["head"])
    other = tables["probes"].query("text == 'ud-pud-en' and target == @HEAD and task == @TASK")
    for row in other.fillna({"weights": NO_WEIGHTS}).to_dict("records"):
        key = words.key(row["model"], "pud", _named(row["features"], row["weights"]))
        found[key] = words.percent(row["value"])
    for row in tables["claims"].to_dict("records"):
        found[words.key(row["model"], row["claim"]) + "_points"] = words.points(row["value"])
    found |= {f"second_hand_{name}": words.percent(value) for name, value in SECOND_HAND.items()}
    found |= {f"paper_{words.key(name)}": words.percent(value) for name, value in PAPER_UAS.items()}
    return found | {
        f"paper_{words.key(name)}_relation": words.percent(value)
        for name, (value, _) in PAPER.items()
    }
