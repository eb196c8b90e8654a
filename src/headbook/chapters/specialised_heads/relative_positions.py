"""Page 12: where dependents stand relative to their heads (Voita et al. 2019, Figure 3)."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from headbook.artefacts.texts import Text
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.specialised_heads._positions import DRAWN, PERSONS, Positions, positions
from headbook.chapters.specialised_heads._released import EWT, TEXTS, trees_of
from headbook.claims.ledger import load as ledger
from headbook.claims.verdict import COLUMNS
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATIONS

NUMBER = 12
TITLE = "Where do dependents stand?"
WORK = "voita2019"
KEYS = ("text", "sentences")

SAMPLE, PUD, DOCUMENTATION = "ewt-sample", "ud-pud-en", "msdocs-ru"
CORPORA = {DOCUMENTATION: "documentation", "tatoeba-de": "short sentences",
           "multi30k-de": "picture descriptions"}  # fmt: skip
"""Corpora that models are trained on here, English sides, as figures name them."""
SEEN = 8
"""The largest offset drawn."""
NAMES = {"nsubj": "subject of a verb", "dobj": "object of a verb", "amod": "adjective of a noun",
         "advmod": "adverb"}  # fmt: skip
SPOKEN = " or ".join(PERSONS)
"""Subjects that are I, we or you, as the laptop tables call them."""


@dataclass(frozen=True)
class Parameters:
    """Treebanks, `sentences` of each at most. No model is looked at."""

    texts: tuple[str, ...] = ("ewt-sample",)
    sentences: int | None = None


def compute(parameters: Parameters, store: Store) -> Tables:
    """Offsets of four relations, the most frequent of each, persons of subjects.

    No claims of its own: these count held-out sentences of the corpora that models are trained on.
    """
    found = [_positions(text, parameters.sentences) for text in parameters.texts]
    return {
        "tree_offsets": pd.DataFrame([row for each in found for row in _offsets(each)]),
        "trees": pd.DataFrame([row for each in found for row in _most_frequent(each)]),
        "tree_persons": pd.DataFrame([row for each in found for row in _persons(each)]),
        "claims": pd.DataFrame(columns=COLUMNS),
    }


def _positions(name: str, sentences: int | None) -> Positions:
    trees = trees_of(name, sentences)
    text = Text(name, tuple(tree.text for tree in trees), None, tuple(trees), "gold")
    return positions(text, name, "")


def _labels(of: Positions) -> dict[str, object]:
    return {"text": of.text.name, "sentences": len(of.text.trees)}


def _offsets(of: Positions) -> Iterator[dict[str, object]]:
    """The share of a relation's dependents at each offset that is drawn."""
    for relation in RELATIONS:
        for offset in range(-SEEN, SEEN + 1):
            share = _share(of.within(relation, offset, offset))
            yield {"relation": relation, "offset": offset, **share, **_labels(of)}


def _most_frequent(of: Positions) -> Iterator[dict[str, object]]:
    """The most frequent offset of each relation, and the share within the paper's range."""
    for relation in RELATIONS:
        inside = _share(of.within(relation, *DRAWN[relation]))
        yield {
            "relation": relation, "arcs": int(of.of(relation).sum()),
            "offset": of.most_frequent(relation), **_share(of.at_most_frequent(relation)),
            **{f"in_range_{name}": each for name, each in inside.items()}, **_labels(of),
        }  # fmt: skip


def _persons(of: Positions) -> Iterator[dict[str, object]]:
    yield {"person": SPOKEN, **_share(of.persons(*PERSONS)), **_labels(of)}


def _share(replicates: Float[Tensor, " replicate"]) -> dict[str, float]:
    return dict(zip(("value", "low", "high"), interval(replicates), strict=True))


def histogram(tables: Tables, text: str = EWT) -> pd.DataFrame:
    """Rows of the figure: shares by offset in one text, or in the first of a run without it."""
    rows = tables["tree_offsets"]
    text = text if text in set(rows["text"]) else rows["text"].iloc[0]
    rows = rows[rows["text"] == text]
    return rows.assign(relation=rows["relation"].map(NAMES))


def baselines(tables: Tables) -> pd.DataFrame:
    """Share at the most frequent offset in every text, the paper's for WMT in the first one's rows.

    The bundled sample is a part of the treebank, and is left out where that stands.
    """
    rows = tables["trees"][["relation", "text", "value", "low", "high"]]
    if set(rows["text"]) > {SAMPLE}:
        rows = rows[rows["text"] != SAMPLE]
    if "baseline" in tables:
        parsed = tables["baseline"].query("text == 'held-out' and corpus in @CORPORA")
        parsed = parsed[["relation", "corpus", "share", "low", "high"]]
        rows = pd.concat([rows, parsed.set_axis(rows.columns, axis=1)], ignore_index=True)
    paper = rows["relation"].map(_paper("WMT en-ru"))
    paper = paper.where(rows["text"] == rows["text"].iloc[0])
    return rows.assign(paper=paper, relation=rows["relation"].map(NAMES),
                       text=rows["text"].replace(TEXTS | CORPORA))  # fmt: skip


def ranges(tables: Tables) -> pd.DataFrame:
    """The share of dependents within the range that the paper draws, a column per gold text."""
    rows = tables["trees"]
    estimates = rows[["in_range_value", "in_range_low", "in_range_high"]].to_numpy()
    cells = rows.assign(cell=[words.estimate(*each) for each in estimates],
                        column=rows["text"].replace(TEXTS))  # fmt: skip
    wide = cells.pivot(index="relation", columns="column", values="cell").loc[list(RELATIONS)]
    drawn = [f"{first} to {last}".replace("-", "−") for first, last in DRAWN.values()]
    wide = wide[list(dict.fromkeys(cells["column"]))].rename(index=NAMES).reset_index()
    wide.insert(1, "range", drawn)
    return wide.rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, by text and relation."""
    found: Facts = {}
    for row in tables["trees"].to_dict("records"):
        key = f"{_SHORT.get(row['text'], row['text'])}_{row['relation']}"
        found[key] = words.percent(row["value"])
        found[f"{key}_estimate"] = words.estimate(row["value"], row["low"], row["high"])
        found[f"{key}_at"] = f"{row['offset']:+.0f}".replace("-", "−")
        found[f"{key}_range"] = words.percent(row["in_range_value"])
        found[f"{_SHORT.get(row['text'], row['text'])}_sentences"] = words.count(row["sentences"])
    for row in tables["tree_persons"].to_dict("records"):
        found[f"{_SHORT.get(row['text'], row['text'])}_spoken"] = words.percent(row["value"])
    if "baseline" in tables:
        for row in tables["baseline"].query("corpus == @DOCUMENTATION").to_dict("records"):
            found[f"docs_{row['relation']}"] = words.percent(row["share"])
        persons = tables["persons"].set_index(["corpus", "person"])["share"]
        found["docs_spoken"] = words.percent(persons[DOCUMENTATION, SPOKEN])
    for short, text in (("wmt", "WMT en-ru"), ("subtitles", "OpenSubtitles en-ru")):
        found |= {f"{short}_{name}": words.percent(share) for name, share in _paper(text).items()}
    for short, each in zip(("wmt", "subtitles"), ledger().claim("voita-t1-persons").paper,
                           strict=True):  # fmt: skip
        found[f"{short}_spoken"] = words.percent(each.values[0])
    return found


def _paper(text: str) -> dict[str, float]:
    """The baselines of the paper's Table 1 on one text, by relation."""
    claims = {name: ledger().claim(f"voita-t1-{name}-head-to-dependent") for name in RELATIONS}
    return {name: next(each.baseline for each in claim.paper if each.of == text)
            for name, claim in claims.items()}  # fmt: skip


_SHORT = {EWT: "ewt", PUD: "pud", SAMPLE: "sample"}
