"""The gender that a translation into Portuguese gives both occupations of a sentence (page 59).

The published rows (300 cases of WinoBias in two versions each) took half a minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Shaped

from headbook.corpora.winobias import FEMALE, MALE, Case
from headbook.experiments.pronouns import drawn_again, mean
from headbook.looking.word_weights import tokens_of
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.results import table
from headbook.text.portuguese_gender import Gender, gender_at
from headbook.types import Kind

GENDERS = (MALE, FEMALE)
Odds = Float[np.ndarray, "row occupation"]
ByCase = dict[str, Shaped[np.ndarray, " case"]]


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

    An occupation's word is the target word with the most weight on the occupation's last word
    (`worker` of `construction worker`), mean over the heads of the last layer of cross-attention.
    """
    versions = [(at, gender) for at in range(len(cases)) for gender in GENDERS]
    sources = [cases[at].versions[gender].text for at, gender in versions]
    targets, found = model.translate(sources), {}
    for batch in model.batches(sources, targets):
        with capture(model.network, {Point.WEIGHTS}) as tape:
            model.network(batch)
        last = tape[Kind.CROSS, Point.WEIGHTS][-1].mean(1)
        for weights, at in zip(last, batch.sentences.tolist(), strict=True):
            number, gender = versions[at]
            version, text = cases[number].versions[gender], sources[at]
            source, written = model.spans(text), model.spans(targets[at], target=True)
            places, nouns = [at for at, span in enumerate(written) if span is not None], []
            for start, end in (version.referent, version.other):
                tokens = tokens_of(source, (text.rfind(" ", start, end) + 1 or start, end))
                place = places[int(weights[places][:, tokens].sum(1).argmax())]
                nouns.append(gender_at(targets[at], written[place][0]))
            found[at] = Translated(number, gender, targets[at], *nouns)
    return [found[at] for at in range(len(versions))]


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
    sets = {"all sentences": np.ones(shape), "pro-stereotypical": pro, "anti-stereotypical": ~pro}
    sets |= {"male pronoun": np.eye(2)[:1], "female pronoun": np.eye(2)[1:]}
    drawn = drawn_again(cases)
    found = {name: mean(drawn, (right * own).sum(1), (read * own).sum(1))
             for name, own in sets.items()}  # fmt: skip
    found["pro minus anti"] = found["pro-stereotypical"] - found["anti-stereotypical"]
    found["male minus female"] = found["male pronoun"] - found["female pronoun"]
    found["the referent follows"] = mean(drawn, right.prod(1), read.prod(1))
    found["the other noun follows"] = mean(drawn, other.prod(1), read.prod(1))
    shares = table({"of": list(found)}, value=np.stack([*found.values()], 1))
    return shares.assign(unread=int((read == 0).sum()), translations=read.size)


def effects(
    cases: Sequence[Case], rows: Sequence[Translated], odds: Odds, losses: np.ndarray
) -> ByCase:
    """Per case with both versions: effects on the log-odds of the masculine determiner.

    stereotype: of the male-stereotyped occupation minus the female-stereotyped one, mean over both
    pronouns. agreement: of the referent, male minus female pronoun; leak: the same of the other.
    loss: of the translations, in nats per token.
    """
    values: dict[int, dict[str, np.ndarray]] = {}
    for row, pair, loss in zip(rows, odds, losses, strict=True):
        values.setdefault(row.case, {})[row.pronoun] = np.array([*pair, loss])
    whole = {number: each for number, each in values.items() if len(each) == len(GENDERS)}
    male, female = (np.array([each[gender] for each in whole.values()]) for gender in GENDERS)
    sign = np.array([1 if cases[number].stereotype == MALE else -1 for number in whole])
    both, (agreement, leak, _) = (male + female) / 2, (male - female).T
    found = {"case": np.array(list(whole)), "stereotype": sign * (both[:, 0] - both[:, 1])}
    return found | {"agreement": agreement, "leak": leak, "loss": both[:, 2]}
