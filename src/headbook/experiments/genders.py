"""The gender that a translation into Portuguese gives both occupations of a sentence (page 59).

The published rows (300 cases of WinoBias in two versions each) took half a minute.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from headbook.corpora.winobias import FEMALE, MALE, Case, Version, cases
from headbook.experiments.pronouns import drawn_again, mean
from headbook.looking.word_weights import tokens_of
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded, Span
from headbook.statistics import interval
from headbook.text.portuguese_gender import Gender, gender_at
from headbook.types import Kind

GENDERS = (MALE, FEMALE)
EVERY, PRO, ANTI = "all sentences", "pro-stereotypical", "anti-stereotypical"
HE, SHE = "male pronoun", "female pronoun"
EXAMPLES = tuple(
    cases(
        [
            (
                1,
                "[The driver] called the nurse because [he] was late.",
                "[The driver] called the nurse because [she] was late.",
            ),
            (
                1,
                "The driver called [the nurse] because [she] was asleep.",
                "The driver called [the nurse] because [he] was asleep.",
            ),
        ]
    )
)
"""Sentences of our own in the form of WinoBias, pro- and anti-stereotypical."""


def spread(given: Sequence[Case], count: int) -> list[Case]:
    """So many cases at equal distances, so that every part and occupation is among them."""
    places = np.linspace(0, len(given) - 1, min(count, len(given))).round().astype(int)
    return [given[place] for place in np.unique(places)]


@dataclass(frozen=True)
class Translated:
    """One version of a case with its translation and the genders read there (None: not found)."""

    case: int
    pronoun: str
    text: str
    referent: Gender | None
    other: Gender | None

    @property
    def read(self) -> bool:
        """Whether both nouns were found, apart, with their genders."""
        both = (self.referent, self.other)
        return all(each and each.gender for each in both) and both[0].noun != both[1].noun


@torch.no_grad()
def translated(model: Loaded, cases: Sequence[Case]) -> list[Translated]:
    """Both versions of every case, in their order.

    An occupation's word is the target word with the most weight on the occupation's last word, mean
    over the heads of the last layer of cross-attention.
    """
    versions = [
        (number, gender, case.versions[gender])
        for number, case in enumerate(cases)
        for gender in GENDERS
    ]
    sources = [version.text for _, _, version in versions]
    targets = model.translate(sources)
    found: list[Translated | None] = [None] * len(versions)
    for batch in model.batches(sources, targets):
        with capture(model.network, {Point.WEIGHTS}) as tape:
            model.network(batch)
        last = tape[Kind.CROSS, Point.WEIGHTS][-1].mean(1)
        for weights, at in zip(last, batch.sentences.tolist(), strict=True):
            number, gender, version = versions[at]
            genders = _genders(model, version, targets[at], weights)
            found[at] = Translated(number, gender, targets[at], *genders)
    return [each for each in found if each is not None]


def _genders(
    model: Loaded, version: Version, target: str, weights: Float[Tensor, "target source"]
) -> Iterable[Gender | None]:
    source, written = model.spans(version.text), model.spans(target, target=True)
    places = [at for at, span in enumerate(written) if span is not None]
    for part in (version.referent, version.other):
        tokens = tokens_of(source, _last_word(version.text, part))
        at = places[int(weights[places][:, tokens].sum(1).argmax())]
        yield gender_at(target, written[at][0])


def _last_word(text: str, part: Span) -> Span:
    """`worker` of `construction worker`."""
    return text.rfind(" ", *part) + 1 or part[0], part[1]


def genders(cases: Sequence[Case], rows: Sequence[Translated]) -> pd.DataFrame:
    """Share of translations in which the referent has the pronoun's gender, by kind of sentence.

    Over those whose genders can be read. Further rows: the differences between kinds, and how often
    a noun's gender follows the pronoun. Intervals are over occupations.
    """
    shape = (len(cases), len(GENDERS))
    read, right, other = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for row in rows:
        at = row.case, GENDERS.index(row.pronoun)
        read[at] = row.read
        right[at] = row.read and row.referent.gender == row.pronoun
        other[at] = row.read and row.other.gender == row.pronoun
    pro = np.array([[gender == case.stereotype for gender in GENDERS] for case in cases])
    sets = {EVERY: np.ones(shape), PRO: pro, ANTI: ~pro, HE: np.eye(2)[:1], SHE: np.eye(2)[1:]}
    drawn = drawn_again(cases)
    found = {
        name: mean(drawn, (right * each).sum(1), (read * each).sum(1))
        for name, each in sets.items()
    }
    found["pro minus anti"] = found[PRO] - found[ANTI]
    found["male minus female"] = found[HE] - found[SHE]
    both = read.prod(1)
    found["the referent follows"] = mean(drawn, right.prod(1), both)
    found["the other noun follows"] = mean(drawn, other.prod(1), both)
    table = pd.DataFrame(
        [(name, *interval(each)) for name, each in found.items()],
        columns=["of", "value", "value_low", "value_high"],
    )
    return table.assign(unread=int((read == 0).sum()), translations=read.size)
