"""Notebook 12: where dependents stand relative to their heads (Voita et al. 2019, Figure 3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headbook.artefacts.texts import HELD_OUT, Text, held_out, treebank
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.tables import claim_row, stacked
from headbook.claims.ledger import load as ledger
from headbook.corpora.readers import load
from headbook.heads.bootstrap import poisson_weights
from headbook.heads.measure import REPLICATES, percentiles
from headbook.runs.seeds import derived
from headbook.runs.store import Store
from headbook.syntax.offsets import most_frequent_offset
from headbook.trees import RELATIONS, Direction

DRAWN = {"nsubj": (-7, 1), "dobj": (0, 5), "amod": (-3, 1), "advmod": (-6, 2)}
"""The offsets the paper's Figure 3 shows, dependent minus head in words; the ledger has them."""
PERSONS = {"first": {"i", "we"}, "second": {"you"}}
"""Subjects told by their form; every other subject counts as third person."""
THIRD = "third"


@dataclass(frozen=True)
class Positions:
    """The arcs of the four relations in one text: each arc's sentence, relation and offset."""

    corpus: str
    target: str
    text: Text
    sentence: Int[Tensor, " arc"]
    relation: Int[Tensor, " arc"]
    offset: Int[Tensor, " arc"]
    person: tuple[str, ...]  # of the dependent, were it a subject

    @property
    def labels(self) -> dict[str, str]:
        return {"text": self.text.name, "corpus": self.corpus, "parser": self.text.parser}

    @property
    def claim_labels(self) -> dict[str, object]:
        """No model is looked at, so none is named and there is no seed."""
        return {"model": self.corpus, "corpus": self.corpus, "target": self.target, "seed": ""}

    @cached_property
    def weights(self) -> Float[Tensor, "sentence replicate"]:
        """Each sentence's bootstrap weights. Numbered from a number of the text's own, so that the
        resamples of two texts are independent."""
        start = derived(0, f"{self.text.name} of {self.corpus}") << 20
        return poisson_weights(torch.arange(len(self.text.trees)) + start, REPLICATES)

    def of(self, relation: str) -> Bool[Tensor, " arc"]:
        return self.relation == RELATIONS.index(relation)

    def commonest(self, relation: str) -> int | None:
        """The most frequent offset, None where the text has no such arc."""
        if not self.of(relation).any():
            return None
        return most_frequent_offset(self.text.trees, relation, Direction.HEAD_TO_DEPENDENT)

    def share(
        self, part: Bool[Tensor, " arc"], whole: Bool[Tensor, " arc"]
    ) -> Float[Tensor, " replicate"]:
        """The share of the arcs of `whole` that are in `part` too; row 0 plain, then resampled."""
        return self._count(part & whole) / self._count(whole)

    def within(self, relation: str, first: int, last: int) -> Float[Tensor, " replicate"]:
        """The share of a relation's dependents that stand `first` to `last` words from the head."""
        inside = (self.offset >= first) & (self.offset <= last)
        return self.share(inside, self.of(relation))

    def at_commonest(self, relation: str) -> Float[Tensor, " replicate"]:
        """The share found by always pointing at the most frequent offset: the paper's baseline."""
        offset = self.commonest(relation)
        if offset is None:
            return torch.full((REPLICATES + 1,), torch.nan, dtype=torch.float64)
        return self.within(relation, offset, offset)

    def persons(self, *persons: str) -> Float[Tensor, " replicate"]:
        """The share of subjects of these persons."""
        asked = torch.tensor([person in persons for person in self.person], dtype=torch.bool)
        return self.share(asked, self.of("nsubj"))

    def _count(self, arcs: Bool[Tensor, " arc"]) -> Float[Tensor, " replicate"]:
        counts = torch.bincount(self.sentence[arcs], minlength=len(self.text.trees))
        return counts.double() @ self.weights


def positions(text: Text, corpus: str, target: str) -> Positions:
    """The arcs of a text's trees."""
    arcs = [
        (number, RELATIONS.index(arc.relation), arc.offset, _person(tree.forms[arc.dependent]))
        for number, tree in enumerate(text.trees)
        for arc in tree.arcs()
        if arc.relation in RELATIONS
    ]
    sentence, relation, offset, person = zip(*arcs, strict=True) if arcs else ((), (), (), ())
    numbers = (torch.tensor(each, dtype=torch.long) for each in (sentence, relation, offset))
    return Positions(corpus, target, text, *numbers, person)


def _person(form: str) -> str:
    return next((name for name, forms in PERSONS.items() if form.lower() in forms), THIRD)


def compute(config: Config, store: Store) -> Tables:
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
            "arcs": int(of.of(relation).sum()), "offset": of.commonest(relation),
            **_summary(of.at_commonest(relation), "share"),
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
    low, high = percentiles(replicates[1:])
    return {name: float(replicates[0]), f"{prefix}low": float(low), f"{prefix}high": float(high)}


def _claims(texts: list[Positions]) -> Iterator[dict[str, object]]:
    for each in texts:
        for relation in RELATIONS:
            inside = _summary(each.within(relation, *DRAWN[relation]), "value")
            yield claim_row(f"voita-f3-{relation}", each.claim_labels, **inside)
        others = [each.at_commonest(name) for name in RELATIONS if name != "amod"]
        ahead = each.at_commonest("amod") - torch.stack(others).nan_to_num(-1).amax(0)
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
