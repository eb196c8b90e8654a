"""Choices of gender in given translations, and a model's scores of them (page 59)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch.nn.functional import cross_entropy

from headbook.corpora.winobias import MALE, Case
from headbook.experiments.genders import GENDERS, Translated
from headbook.models.gates import closed
from headbook.models.loaded import Loaded
from headbook.text.portuguese_gender import Gender, swapped
from headbook.types import HeadId


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
