"""Page 59: the same roles in two languages, and stereotypes of gender in heads and translations."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._pronouns import (
    Tested,
    by_chance,
    over_groups,
    pronoun_weights,
)
from headbook.chapters.seeing._shared_roles import (
    LAYER,
    MATCHED,
    ROLES,
    SAME,
    Shared,
    beyond,
    compared,
)
from headbook.chapters.seeing._translated_gender import (
    Choices,
    Translated,
    by_head,
    effects,
    translated,
)
from headbook.claims.gates import NONE, RELEASED
from headbook.claims.verdict import COLUMNS, OPTIONAL
from headbook.corpora import winobias
from headbook.corpora.winobias import FEMALE, MALE, Case
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.load import load
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import resampled_mean
from headbook.types import HeadId, UserError

NUMBER = 59
TITLE = "Do languages share heads, and do heads carry bias?"
WORK = "stanovsky2019"
NUMBERS = ["value", "low", "high"]
KEYS = ("model", "sentences", "cases")

READERS = {"firefox-en-pt": "ud-pud-en", "firefox-pt-en": "ud-pud-pt"}
"""Two models, and the same sentences in the language that each reads."""
AS_IS, REDRAWN = "released", "drawn anew"
STEREOTYPE, AGREEMENT, LEAK = "stereotype", "agreement", "leak"
EVERY, PRO, ANTI = "all sentences", "pro-stereotypical", "anti-stereotypical"
HE, SHE = "male pronoun", "female pronoun"
MEAN, BEYOND = "mean", "matched minus another layer"
PAPER = {EVERY: 0.531, HE: 0.814, SHE: 0.285}
"""Google Translate from English to Spanish on WinoMT: the work's released log, 3,888 sentences."""
EXAMPLES = (
    (1, "[The driver] called the nurse because [he] was late.",
     "[The driver] called the nurse because [she] was late."),
    (1, "The driver called [the nurse] because [she] was asleep.",
     "The driver called [the nurse] because [he] was asleep."),
)  # fmt: skip
"""Sentences of our own in the form of WinoBias, pro- and anti-stereotypical."""
CHANCES = range(5)


@dataclass(frozen=True)
class Parameters:
    """Models whose pronouns are looked at, and the translator into Portuguese.

    Measured now are so many PUD sentences, cases of WinoBias, and cases without each head; where
    all are 0, the examples alone, and the published tables are read.
    """

    models: tuple[str, ...] = ("firefox-en-pt", "minilm")
    translator: str = "firefox-en-pt"
    sentences: int = 0
    cases: int = 0
    ablated: int = 0


def compute(parameters: Parameters, store: Store) -> Tables:
    """Shared roles, pronoun weights, translated genders whole and head by head, claims."""
    if min(parameters.sentences, parameters.cases, parameters.ablated) < 0:
        raise UserError("sentences, cases and ablated are 0 or more")
    tables = {"examples": examples(parameters.translator)}
    if parameters.sentences:
        tables["roles"] = roles(parameters.sentences)
    if parameters.cases:
        chosen = spread(winobias.load(), parameters.cases)
        tables["pronouns"] = pronouns(parameters.models, chosen)
        tables |= _translations(parameters.translator, chosen, parameters.ablated)
    if parameters.sentences and parameters.cases and parameters.ablated:
        tables["claims"] = claims(tables)
    return tables


def spread(cases: Sequence[Case], count: int) -> list[Case]:
    """So many cases at equal distances, so that every part and occupation is among them."""
    places = np.linspace(0, len(cases) - 1, min(count, len(cases))).round().astype(int)
    return [cases[place] for place in np.unique(places)]


def examples(translator: str) -> pd.DataFrame:
    """Translations of our own sentences, and the genders read in them."""
    own = list(winobias.cases(EXAMPLES))
    return pd.DataFrame([
        {"model": translator, "sentence": own[row.case].versions[row.pronoun].text,
         "translation": row.text, "the pronoun's": _said(row.text, row.referent),
         "the other": _said(row.text, row.other)}
        for row in translated(load(translator), own)
    ])  # fmt: skip


def _said(text: str, noun) -> str:
    if noun is None:
        return "not found"
    return f"{text[slice(*noun.noun)]} ({noun.gender or 'cannot be read'})"


def roles(sentences: int) -> pd.DataFrame:
    """One row per role and comparison, one for their mean, and one that compares two of these."""
    pairs = compared([load(name) for name in READERS], tuple(READERS.values()), sentences)
    rows = []
    for name, pair in pairs.items():
        found = Shared.of(*pair)
        each = zip(ROLES, found.value, found.low, found.high, found.chance, found.p, strict=True)
        rows += [(name, role, *numbers) for role, *numbers in each]
        rows.append((name, MEAN, *found.mean, found.mean_chance[1], np.nan))
    rows.append((BEYOND, MEAN, *beyond(pairs[MATCHED], pairs[LAYER]), np.nan, np.nan))
    columns = ["heads", "role", "value", "low", "high", "chance", "p"]
    return pd.DataFrame(rows, columns=columns).assign(sentences=sentences)


def pronouns(models: Sequence[str], cases: Sequence[Case]) -> pd.DataFrame:
    """One row per model, weights, measure and encoder head."""
    groups = [case.group for case in cases]
    rows = []
    for name in models:
        model = load(name)
        for weights in (AS_IS, REDRAWN):
            ignorant = without_knowledge(model.network, Null.DRAWN, 0)
            with nullcontext() if weights == AS_IS else ignorant:
                found = pronoun_weights(model, cases)
            for measure, values in (("stereotype", found.stereotyped()),
                                    ("referent", found.resolved())):  # fmt: skip
                rows.append(_tested(values, groups).assign(model=name, weights=weights,
                                                           measure=measure))  # fmt: skip
    return pd.concat(rows, ignore_index=True).assign(cases=len(cases))


def _tested(values: np.ndarray, groups: Sequence[str]) -> pd.DataFrame:
    """One row per head of values [case layer head]; `by_chance` is of all heads together."""
    layers, heads = values.shape[1:]
    flat = over_groups(values.reshape(len(values), -1), groups)
    tested = Tested.of(flat)
    layer, head = np.divmod(np.arange(layers * heads), heads)
    return pd.DataFrame({
        "layer": layer + 1, "head": head + 1, "value": tested.value, "low": tested.low,
        "high": tested.high, "p": tested.p, "by_chance": by_chance(flat, CHANCES),
    })  # fmt: skip


def _translations(translator: str, cases: Sequence[Case], ablated: int) -> Tables:
    """Genders of whole translations, and effects on the choice of gender without each head."""
    model = load(translator)
    rows = translated(model, cases)
    tables = {"genders": genders(cases, rows).assign(model=translator, cases=len(cases))}
    if ablated:
        few = spread(cases, ablated)
        place = {id(case): number for number, case in enumerate(few)}
        kept = [replace(row, case=place[id(cases[row.case])])
                for row in rows if id(cases[row.case]) in place]  # fmt: skip
        choices = Choices.of(model, few, kept)
        tables["heads"] = without_heads(choices, few, all_heads(model.network))
        tables["heads"] = tables["heads"].assign(model=translator)
    return tables


def genders(cases: Sequence[Case], rows: Sequence[Translated]) -> pd.DataFrame:
    """Share of translations in which the referent has the pronoun's gender, by kind of sentence.

    Over those whose gender can be read; mean over the referents' occupations with a bootstrap over
    them. Further rows: the difference between both kinds, and how often a noun's gender follows
    the pronoun.
    """
    frame = pd.DataFrame([_row(cases[row.case], row) for row in rows])
    known = frame[frame["read"]]
    sets = {
        EVERY: known, PRO: known[known["pro"]], ANTI: known[~known["pro"]],
        HE: known[known["pronoun"] == MALE], SHE: known[known["pronoun"] != MALE],
    }  # fmt: skip
    found = [_mean(name, own, "right") for name, own in sets.items()]
    for name, column, one, other in (("pro minus anti", "pro", True, False),
                                     ("male minus female", "pronoun", MALE, FEMALE)):  # fmt: skip
        means = known.groupby(["occupation", column])["right"].mean().unstack().dropna()
        found.append(_summary(name, means[one] - means[other], len(known)))
    both = known.pivot(index=["case", "occupation"], columns="pronoun", values=["own", "other"])
    both = both.dropna().reset_index("occupation")
    for noun, name in (("own", "the referent follows"), ("other", "the other noun follows")):
        genders_of = both[noun]
        follows = (genders_of[MALE] == MALE) & (genders_of[FEMALE] == FEMALE)
        changed = pd.DataFrame({"occupation": both["occupation"], "right": follows.astype(float)})
        found.append(_mean(name, changed, "right"))
    return pd.DataFrame(found).assign(unread=int((~frame["read"]).sum()), translations=len(frame))


def _row(case: Case, row: Translated) -> dict[str, object]:
    version = case.versions[row.pronoun]
    own, other = (each.gender if each else None for each in (row.referent, row.other))
    return {"case": row.case, "pronoun": row.pronoun, "pro": row.pronoun == case.stereotype,
            "occupation": version.text[slice(*version.referent)].lower(), "read": row.read,
            "own": own, "other": other, "right": float(own == row.pronoun)}  # fmt: skip


def _mean(name: str, rows: pd.DataFrame, column: str) -> dict[str, object]:
    return _summary(name, rows.groupby("occupation")[column].mean(), len(rows))


def _summary(name: str, values: pd.Series, count: int) -> dict[str, object]:
    low, high = resampled_mean(values, seed=0)
    return {"of": name, "value": values.mean(), "low": low, "high": high, "count": count}


def without_heads(choices: Choices, cases: Sequence[Case], heads: Sequence[HeadId]) -> pd.DataFrame:
    """One row per effect and head: the change of the effect without it, in nats.

    Two more per effect: that of the whole model (layer 0), and, of kind `…, chosen`, the share of
    it that goes with one head, chosen on every other case and scored on the rest.
    """
    whole = effects(cases, choices.rows, choices.read())
    count = len(whole.pop("case"))
    frames = []
    for effect, changes in by_head(choices, cases, heads).items():
        tested = Tested.of(changes)
        each = pd.DataFrame({
            "kind": [str(head.kind) for head in heads],
            "layer": [head.layer + 1 for head in heads],
            "head": [head.head + 1 for head in heads],
            "value": tested.value, "low": tested.low, "high": tested.high, "p": tested.p,
        })  # fmt: skip
        rows = [_total(whole[effect]), _chosen(whole[effect], changes, heads)]
        frames.append(pd.concat([pd.DataFrame(rows), each]).assign(effect=effect, ablated=count))
    return pd.concat(frames, ignore_index=True)


def _total(whole: np.ndarray) -> dict[str, object]:
    low, high = resampled_mean(whole, seed=0)
    return {"kind": "", "layer": 0, "head": 0, "value": whole.mean(), "low": low, "high": high}


def _chosen(whole: np.ndarray, changes: np.ndarray, heads: Sequence[HeadId]) -> dict[str, object]:
    best = int(changes[::2].mean(0).argmin())  # the head whose removal takes most of it away
    low, high = resampled_mean(-changes[1::2, best], seed=0)
    left = whole[1::2].mean()
    head = heads[best]
    return {"kind": f"{head.kind}, chosen", "layer": head.layer + 1, "head": head.head + 1,
            "value": -changes[1::2, best].mean() / left, "low": low / left,
            "high": high / left}  # fmt: skip


def claims(tables: Tables) -> pd.DataFrame:
    """One row per claim and model."""
    of = tables["genders"].set_index("of")
    mean = tables["roles"].query("role == @MEAN").set_index("heads")
    translator = tables["genders"]["model"].iloc[0]
    rows = [
        ("roles-same-number", "firefox-pt-en", *mean.loc[SAME, NUMBERS]),
        ("roles-matched", "firefox-pt-en", *mean.loc[MATCHED, NUMBERS]),
        ("roles-matched-beyond-layers", "firefox-pt-en", *mean.loc[BEYOND, NUMBERS]),
        ("gender-masculine", translator, *of.loc["male minus female", NUMBERS]),
        ("gender-stereotyped", translator, *of.loc["pro minus anti", NUMBERS]),
        ("gender-accuracy", translator, *of.loc[EVERY, NUMBERS]),
    ]
    for model, own in tables["pronouns"].query("weights == @AS_IS").groupby("model", sort=False):
        count = significant(own.query("measure == 'stereotype'"))
        rows.append(("pronouns-stereotyped", model, count, count, count))
    named = {STEREOTYPE: "stereotype-in-one-head", AGREEMENT: "agreement-in-one-head"}
    for effect, claim in named.items():
        row = chosen_head(tables, effect)
        rows.append((claim, translator, *row[NUMBERS]))
    frame = pd.DataFrame(rows, columns=["claim", "model", "value", "low", "high"])
    frame = frame.assign(corpus=RELEASED, target="", seed="", baseline=np.nan, closed=NONE)
    return frame[[*COLUMNS, *OPTIONAL]]


def chosen_head(tables: Tables, effect: str) -> pd.Series:
    """The head whose removal takes most of an effect away: its share, on cases not chosen on."""
    rows = tables["heads"]
    return rows[(rows["effect"] == effect) & rows["kind"].str.endswith("chosen")].iloc[0]


def significant(rows: pd.DataFrame) -> int:
    """Heads that follow stereotypes: positive, adjusted p below 5 %."""
    return int(((rows["p"] < 0.05) & (rows["value"] > 0)).sum())


def facts(tables: Tables) -> Facts:
    return {}
