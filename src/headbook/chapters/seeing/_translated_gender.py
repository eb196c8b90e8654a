"""The gender that a translation into Portuguese gives both occupations, and what it hangs on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import cross_entropy

from headbook.chapters.seeing._occupations import drawn_again, mean
from headbook.corpora.winobias import FEMALE, MALE, Case, Version
from headbook.looking.word_weights import tokens_of
from headbook.models.capture import Point, capture
from headbook.models.gates import closed
from headbook.models.loaded import Loaded, Span
from headbook.statistics import interval
from headbook.syntax.portuguese_gender import Gender, gender_at, swapped
from headbook.types import HeadId, Kind

GENDERS = (MALE, FEMALE)
EVERY, PRO, ANTI = "all sentences", "pro-stereotypical", "anti-stereotypical"
HE, SHE = "male pronoun", "female pronoun"


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
    versions = [(number, gender, case.versions[gender])
                for number, case in enumerate(cases) for gender in GENDERS]  # fmt: skip
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
    found = {name: mean(drawn, (right * each).sum(1), (read * each).sum(1))
             for name, each in sets.items()}  # fmt: skip
    found["pro minus anti"] = found[PRO] - found[ANTI]
    found["male minus female"] = found[HE] - found[SHE]
    both = read.prod(1)
    found["the referent follows"] = mean(drawn, right.prod(1), both)
    found["the other noun follows"] = mean(drawn, other.prod(1), both)
    table = pd.DataFrame([(name, *interval(each)) for name, each in found.items()],
                         columns=["of", "value", "low", "high"])  # fmt: skip
    return table.assign(unread=int((read == 0).sum()), translations=read.size)


@dataclass(frozen=True)
class Choice:
    """Position at which a translation chooses a determiner's gender, and the token for each."""

    position: int
    male: int
    female: int


@dataclass(frozen=True)
class Read:
    """log p(masculine) − log p(feminine) of each determiner, and the translation's own loss.

    The loss is the mean over tokens, in nats, and shows a head's value to the whole translation.
    """

    odds: Float[np.ndarray, "row occupation"]
    loss: Float[np.ndarray, " row"]


@dataclass(frozen=True)
class Choices:
    """The choices of gender in given translations, the words before each being as they are.

    Row `i` of `choices` is of `rows[i]`: its referent, then its other occupation.
    """

    model: Loaded
    sources: Sequence[str]
    rows: Sequence[Translated]
    choices: Sequence[Sequence[Choice]]

    @classmethod
    def of(cls, model: Loaded, cases: Sequence[Case], rows: Sequence[Translated]) -> "Choices":
        """Of those versions in which both occupations have a determiner of one token."""
        kept, found = [], []
        for row in rows:
            each = [_choice(model, row.text, noun) for noun in (row.referent, row.other)]
            if row.read and None not in each:
                kept.append(row)
                found.append(each)
        sources = [cases[row.case].versions[row.pronoun].text for row in kept]
        return cls(model, sources, kept, found)

    @torch.no_grad()
    def read(self, without: Sequence[HeadId] = ()) -> Read:
        """The model's scores of the choices, with some heads removed."""
        model, odds, loss = self.model, np.empty((len(self.rows), 2)), np.empty(len(self.rows))
        targets = [row.text for row in self.rows]
        with closed(model.network, without):
            for batch in model.batches(self.sources, targets, tokens=1024):
                logits = model.network(batch).float()
                wanted = batch.target_out.flatten()
                nats = cross_entropy(logits.flatten(0, 1), wanted, reduction="none")
                nats = nats.reshape(batch.target_out.shape)
                means = (nats * batch.target_mask).sum(1) / batch.target_mask.sum(1)
                for row, number in enumerate(batch.sentences.tolist()):
                    loss[number] = float(means[row])
                    for column, choice in enumerate(self.choices[number]):
                        at = logits[row, choice.position]
                        odds[number, column] = float(at[choice.male] - at[choice.female])
        return Read(odds, loss)


def _choice(model: Loaded, text: str, noun: Gender | None) -> Choice | None:
    """The first token in which the text and that with the other determiner differ."""
    if noun is None or noun.determiner is None:
        return None
    (batch,) = model.batches([text], [text])
    (other,) = model.batches([text], [swapped(text, noun.determiner)])
    here, there = batch.target_out[0], other.target_out[0]
    if len(here) != len(there) or int((here != there).sum()) != 1:
        return None
    position = int((here != there).nonzero())
    pair = int(here[position]), int(there[position])
    return Choice(position, *(pair if noun.gender == MALE else pair[::-1]))


def effects(
    cases: Sequence[Case], rows: Sequence[Translated], read: Read
) -> dict[str, Shaped[np.ndarray, " case"]]:
    """Per case with both versions: effects on the log-odds of the masculine determiner.

    stereotype: of the male-stereotyped occupation minus the female-stereotyped one, mean over both
    pronouns. agreement: of the referent, male minus female pronoun; leak: the same of the other.
    loss: of the translations, in nats per token.
    """
    values: dict[int, dict[str, np.ndarray]] = {}
    for row, pair, loss in zip(rows, read.odds, read.loss, strict=True):
        values.setdefault(row.case, {})[row.pronoun] = np.array([*pair, loss])
    whole = {number: each for number, each in values.items() if len(each) == len(GENDERS)}
    male, female = (np.array([each[gender] for each in whole.values()]) for gender in GENDERS)
    sign = np.array([1 if cases[number].stereotype == MALE else -1 for number in whole])
    mean = (male + female) / 2
    return {
        "case": np.array(list(whole)),
        "stereotype": sign * (mean[:, 0] - mean[:, 1]),
        "agreement": male[:, 0] - female[:, 0],
        "leak": male[:, 1] - female[:, 1],
        "loss": mean[:, 2],
    }


def by_head(
    choices: Choices,
    cases: Sequence[Case],
    heads: Sequence[HeadId],
    progress: Callable[[Iterable], Iterable] = iter,
) -> dict[str, Float[np.ndarray, "case head"]]:
    """Change of each effect when one head is removed, one column per head."""
    whole = effects(cases, choices.rows, choices.read())
    changes: dict[str, list[np.ndarray]] = {name: [] for name in whole if name != "case"}
    for head in progress(heads):
        without = effects(cases, choices.rows, choices.read([head]))
        for name, columns in changes.items():
            columns.append(without[name] - whole[name])
    return {name: np.stack(columns, axis=1) for name, columns in changes.items()}
