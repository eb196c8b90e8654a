"""Page 13: whether heads between a verb and its subject find pronouns or every subject."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd
import torch

from headbook.chapters import words
from headbook.chapters.specialised_heads._released import TEXTS, Reading
from headbook.chapters.specialised_heads._roles import NAMES
from headbook.chapters.words import TITLES
from headbook.heads.measure import HeadMeasure, RatioSums, best_head
from headbook.heads.offset_baseline import OffsetShare, offset_accuracies
from headbook.heads.syntactic import SyntacticAccuracy, best_accuracies
from headbook.statistics import interval
from headbook.syntax.alignment import AlignedTree
from headbook.trees import RELATION_DIRECTIONS, RELATIONS

SUBJECT, PRONOUN = RELATIONS.index("nsubj"), "PRON"
KINDS = {"pronouns": True, "other subjects": False}
COLUMNS = [at for at, (name, _) in enumerate(RELATION_DIRECTIONS) if name == RELATIONS[SUBJECT]]


def measures(reading: Reading) -> dict[str, HeadMeasure]:
    """Accuracies of heads and of offsets on the arcs of each kind of subject; none without tags."""
    if not any(tree.tags for tree in reading.trees):
        return {}
    found: dict[str, HeadMeasure] = {}
    for kind, pronouns in KINDS.items():
        trees = [with_subjects(tree, pronouns=pronouns) for tree in reading.trees]
        found |= {f"heads, {kind}": SyntacticAccuracy(trees),
                  f"offsets, {kind}": OffsetShare(trees)}  # fmt: skip
    return found


def with_subjects(tree: AlignedTree, *, pronouns: bool) -> AlignedTree:
    """The tree without the arcs of subjects that are no pronouns, or of those that are."""
    kept = [relation != SUBJECT or (tree.tags[dependent] == PRONOUN) == pronouns
            for relation, dependent, _ in tree.arcs.tolist()]  # fmt: skip
    return replace(tree, arcs=tree.arcs[torch.tensor(kept, dtype=torch.bool)])


def rows(reading: Reading, sums: Mapping[str, RatioSums]) -> Iterator[dict[str, object]]:
    """One row per direction and kind of subject: the head that is best for all subjects, and the
    offset that is, chosen on one half of the sentences, on this kind's arcs of the other."""
    best = best_head(sums["heads"])
    for kind in KINDS:
        if f"heads, {kind}" not in sums:
            continue
        heads = best_accuracies(sums[f"heads, {kind}"], sums["heads"])
        offsets = offset_accuracies(sums[f"offsets, {kind}"], sums["offsets"])
        arcs = sums[f"heads, {kind}"].denominator[:, 0, 0, 0].sum(0)
        for at in COLUMNS:
            row: dict[str, object] = {
                "relation": NAMES[at], "subjects": kind, "arcs": int(arcs[at]),
                "layer": int(best.layer[at]) + 1, "head": int(best.head[at]) + 1,
                "baseline": float(offsets[0, at]),
            }  # fmt: skip
            for name, values in (("value", heads), ("margin", heads - offsets)):
                ends = zip(
                    (name, f"{name}_low", f"{name}_high"), interval(values[:, at]), strict=True
                )
                row |= dict(ends)
            yield row | reading.labels


def table(subjects: pd.DataFrame) -> pd.DataFrame:
    """Head and offset in per cent, and the lead in points: one row per model, text, direction and
    kind of subject."""
    heads = zip(subjects["layer"], subjects["head"], strict=True)
    return pd.DataFrame({
        "model": subjects["model"].map(TITLES),
        "text": subjects["text"].replace(TEXTS),
        "relation": subjects["relation"],
        "subjects": subjects["subjects"],
        "head": [words.head(*each) for each in heads],
        "finds": subjects["value"].map(words.percent),
        "offset": subjects["baseline"].map(words.percent),
        "lead, points": [words.lead(row.margin, row.margin_low, row.margin_high)
                         for row in subjects.itertuples()],
    })  # fmt: skip
