"""Page 12, models trained here: where dependents stand relative to their heads."""

from collections.abc import Iterator

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.texts import HELD_OUT, held_out, treebank
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads._positions import (
    DRAWN,
    PERSONS,
    THIRD,
    Positions,
    positions,
)
from headbook.chapters.tables import claim_row, stacked
from headbook.claims.ledger import load as ledger
from headbook.corpora.readers import load
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATIONS


def trained_here(config: Config, store: Store) -> Tables:
    """Offsets, the most frequent of them and the persons of subjects in every text. No model."""
    texts = list(_texts(config, store))
    return {
        "offsets": stacked(_offset_rows(each) for each in texts),
        "baseline": pd.DataFrame([row for each in texts for row in _baseline_rows(each)]),
        "persons": pd.DataFrame([row for each in texts for row in _person_rows(each)]),
        "paper": pd.DataFrame(_paper_rows()),
        "claims": pd.DataFrame(_claims([each for each in texts if each.text.name == HELD_OUT])),
    }


def _texts(config: Config, store: Store) -> Iterator[Positions]:
    """The held-out text of every corpus of the config's models, then the treebanks."""
    for name in dict.fromkeys(run.corpus for run in config.models()):
        corpus = load(name)
        text = held_out(corpus, config.sentence_count, config.pipeline, store)
        yield positions(text, corpus.name, corpus.target_language)
    for name in config.texts:
        if name != HELD_OUT:
            yield positions(treebank(name, config.sentence_count), name, "")


def _offset_rows(of: Positions) -> pd.DataFrame:
    arcs = pd.DataFrame({"relation": of.relation.tolist(), "offset": of.offset.tolist()})
    rows = arcs.value_counts().sort_index().rename("count").reset_index()
    rows["share"] = rows["count"] / rows.groupby("relation")["count"].transform("sum")
    rows["relation"] = rows["relation"].map(dict(enumerate(RELATIONS)))
    return rows.assign(**of.labels)[[*of.labels, *rows.columns]]


def _baseline_rows(of: Positions) -> Iterator[dict[str, object]]:
    for relation in RELATIONS:
        yield {
            **of.labels, "relation": relation, "sentences": len(of.text.trees),
            "arcs": int(of.of(relation).sum()), "offset": of.most_frequent(relation),
            **_summary(of.at_most_frequent(relation), "share"),
            **_summary(of.within(relation, *DRAWN[relation]), "in_range", "in_range_"),
        }  # fmt: skip


def _person_rows(of: Positions) -> Iterator[dict[str, object]]:
    for person in (*PERSONS, THIRD):
        yield {**of.labels, "person": person, **_summary(of.persons(person), "share")}
    yield {**of.labels, "person": "first or second", **_summary(of.persons(*PERSONS), "share")}


def _paper_rows() -> Iterator[dict[str, object]]:
    """The baselines of the paper's Table 1, as the ledger has them."""
    for relation in RELATIONS:
        for number in ledger().claim(f"voita-t1-{relation}-head-to-dependent").paper:
            yield {"of": number.of, "relation": relation, "share": number.baseline}


def _summary(
    replicates: Float[Tensor, " replicate"], name: str, prefix: str = ""
) -> dict[str, float]:
    """The plain value as `name`, and its interval."""
    return dict(zip((name, f"{prefix}low", f"{prefix}high"), interval(replicates), strict=True))


def _claims(texts: list[Positions]) -> Iterator[dict[str, object]]:
    for each in texts:
        for relation in RELATIONS:
            inside = _summary(each.within(relation, *DRAWN[relation]), "value")
            yield claim_row(f"voita-f3-{relation}", each.claim_labels, **inside)
        others = [each.at_most_frequent(name) for name in RELATIONS if name != "amod"]
        ahead = each.at_most_frequent("amod") - torch.stack(others).nan_to_num(-1).amax(0)
        yield claim_row(
            "voita-f3-amod-most-predictable", each.claim_labels, **_summary(ahead, "value")
        )
    yield from _person_claims(texts)


def _person_claims(texts: list[Positions]) -> Iterator[dict[str, object]]:
    """Each short-sentence corpus against a long-sentence one, of the same target if any is."""
    collections = ledger().domains
    long = [each for each in texts if each.corpus.split("-")[0] in collections["long"]]
    for short in texts:
        if long and short.corpus.split("-")[0] in collections["short"]:
            other = next((each for each in long if each.target == short.target), long[0])
            more = short.persons(*PERSONS) - other.persons(*PERSONS)
            labels = {**short.claim_labels, "model": f"{short.corpus} minus {other.corpus}"}
            yield claim_row("voita-t1-persons", labels, **_summary(more, "value"))
