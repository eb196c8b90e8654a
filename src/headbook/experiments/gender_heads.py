"""What each head of a translator has to do with the gender that it chooses (page 59).

Choices of gender are those of given translations. The published rows (60 cases of WinoBias without
each of 64 heads) took two minutes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch.nn.functional import cross_entropy

from headbook import results
from headbook.corpora.winobias import MALE, Case
from headbook.experiments.genders import ByCase, Odds, Translated, effects
from headbook.experiments.pronouns import adjusted, drawn_again, mean
from headbook.looking.passes import bar
from headbook.models.gates import all_heads, closed
from headbook.models.loaded import Loaded
from headbook.statistics import spread
from headbook.text.portuguese_gender import Gender, swapped
from headbook.types import HeadId

Choice = tuple[int, int, int]
"""Position at which a translation chooses a determiner's gender, and the two tokens."""
Choosing = list[tuple[Translated, tuple[Choice, Choice]]]
"""Translations with the choices of their referents and other occupations."""


def choosing(model: Loaded, rows: Sequence[Translated]) -> Choosing:
    """Those versions in which both occupations have a determiner of one token."""
    nouns = [(row, (row.referent, row.other)) for row in rows if row.read]
    found = [(row, tuple(_choice(model, row.text, each) for each in two)) for row, two in nouns]
    return [(row, choices) for row, choices in found if None not in choices]


@torch.no_grad()
def read(
    model: Loaded, cases: Sequence[Case], rows: Choosing, without: Sequence[HeadId] = ()
) -> tuple[Odds, Float[np.ndarray, " row"]]:
    """log p(masculine) − log p(feminine) of each determiner with some heads removed, the words
    before it being as they are; and the translation's own loss: mean over its tokens, in nats."""
    odds, loss, targets = np.empty((len(rows), 2)), np.empty(len(rows)), [x.text for x, _ in rows]
    sources = [cases[row.case].versions[row.pronoun].text for row, _ in rows]
    with closed(model.network, without):
        for batch in model.batches(sources, targets, tokens=1024):
            logits = model.network(batch).float()
            wanted = batch.target_out.flatten()
            nats = cross_entropy(logits.flatten(0, 1), wanted, reduction="none")
            nats = nats.view(batch.target_out.shape) * batch.target_mask
            means = nats.sum(1) / batch.target_mask.sum(1)
            for row, number in enumerate(batch.sentences.tolist()):
                loss[number] = float(means[row])
                for column, (place, male, female) in enumerate(rows[number][1]):
                    odds[number, column] = logits[row, place, male] - logits[row, place, female]
    return odds, loss


def _choice(model: Loaded, text: str, noun: Gender | None) -> Choice | None:
    """The first token in which the text and that with the other determiner differ."""
    if noun is None or noun.determiner is None:
        return None
    here, there = (model.batches([text], [each])[0].target_out[0]
                   for each in (text, swapped(text, noun.determiner)))  # fmt: skip
    if len(here) != len(there) or int((here != there).sum()) != 1:
        return None
    place = int((here != there).nonzero())
    pair = int(here[place]), int(there[place])
    return place, *(pair if noun.gender == MALE else pair[::-1])


def by_head(
    model: Loaded, cases: Sequence[Case], rows: Choosing, heads: Sequence[HeadId]
) -> tuple[ByCase, dict[str, Float[np.ndarray, "case head"]]]:
    """Each effect of the whole model, and its change when one head is removed, by head."""
    said, given = [row for row, _ in rows], (model, cases, rows)
    whole = effects(cases, said, *read(*given))
    without = [effects(cases, said, *read(*given, [head])) for head in bar(heads, "heads", "head")]
    return whole, {name: np.stack([each[name] - own for each in without], axis=1)
                   for name, own in whole.items() if name != "case"}  # fmt: skip


def without_heads(
    model: Loaded, cases: Sequence[Case], rows: Sequence[Translated], count: int
) -> pd.DataFrame:
    """The `table` of so many of the cases, at even distances."""
    few = spread(range(len(cases)), count, np.rint)
    own = [replace(row, case=few.index(row.case)) for row in rows if row.case in few]
    few, heads = [cases[at] for at in few], all_heads(model.network)
    return table(*by_head(model, few, choosing(model, own), heads), few, heads)


def table(
    whole: ByCase,
    changes: dict[str, Float[np.ndarray, "case head"]],
    cases: Sequence[Case],
    heads: Sequence[HeadId],
) -> pd.DataFrame:
    """One row per effect and head: the change without it, in nats.

    Two more per effect: that of the whole model, and, of kind `…, chosen`, the share of it that
    goes with one head, chosen on every other case and scored on the rest.
    """
    kept, frames = [cases[number] for number in whole["case"]], []
    every, tested_on = drawn_again(kept), drawn_again(kept[1::2])
    names = [(str(head.kind), head.layer + 1, head.head + 1) for head in heads]
    for effect, change in changes.items():
        best = int(change[::2].mean(0).argmin())  # its removal takes most of the effect away
        share = mean(tested_on, -change[1::2, best], whole[effect][1::2])
        kind, *at = names[best]
        rows = zip(("whole", 0, 0), (f"{kind}, chosen", *at), *names, strict=True)
        labels = dict(zip(("kind", "layer", "head"), map(list, rows), strict=True))
        values = np.column_stack([mean(every, whole[effect]), share, mean(every, change)])
        found = results.table(labels, value=values)
        p = [np.nan, np.nan, *adjusted(found[2:])]
        frames.append(found.assign(p=p, effect=effect, ablated=len(kept)))
    return pd.concat(frames, ignore_index=True)
