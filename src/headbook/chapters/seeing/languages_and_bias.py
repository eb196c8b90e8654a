"""Page 59: the same roles in two languages, and stereotypes of gender in heads and translations."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.seeing._occupations import Adjusted, drawn_again, mean
from headbook.chapters.seeing._pronouns import pronoun_weights
from headbook.chapters.seeing._shared_roles import (
    CEILING,
    LAYER,
    MATCHED,
    ROLES,
    SAME,
    UNTRAINED,
    Shared,
    beyond,
    compared,
)
from headbook.chapters.seeing._translated_gender import (
    ANTI,
    EVERY,
    HE,
    PRO,
    SHE,
    Choices,
    by_head,
    effects,
    genders,
    translated,
)
from headbook.chapters.tables import claims_table, released_claim
from headbook.corpora import winobias
from headbook.corpora.winobias import Case
from headbook.heads.nulls import Null, without_knowledge
from headbook.looking.load import load
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.trees import RELATIONS
from headbook.types import HeadId, Kind, UserError

NUMBER = 59
TITLE = "Do languages share heads, and do heads carry bias?"
WORK = "stanovsky2019"
NUMBERS = ["value", "low", "high"]
KEYS = ("model", "sentences", "cases")

READERS = {"firefox-en-pt": "ud-pud-en", "firefox-pt-en": "ud-pud-pt"}
"""Two models, and the same sentences in the language that each reads."""
AS_IS, REDRAWN = "released", "drawn anew"
SHOWN = {AS_IS: "trained"}
"""Weights as tables name them: models of our own are not released."""
STEREOTYPE, AGREEMENT, LEAK = "stereotype", "agreement", "leak"
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
    drawn, rows = drawn_again(cases), []
    for name in models:
        model = load(name)
        for state in (AS_IS, REDRAWN):
            ignorant = without_knowledge(model.network, Null.DRAWN, 0)
            with nullcontext() if state == AS_IS else ignorant:
                found = pronoun_weights(model, cases)
            for measure, values in (("stereotype", found.stereotyped()),
                                    ("referent", found.resolved())):  # fmt: skip
                tested = Adjusted.of(drawn, values.reshape(len(values), -1))
                layer, head = np.divmod(np.arange(len(tested.value)), values.shape[-1])
                rows.append(pd.DataFrame({
                    "model": name, "weights": state, "measure": measure, "layer": layer + 1,
                    "head": head + 1, "value": tested.value, "low": tested.low,
                    "high": tested.high, "p": tested.p,
                }))  # fmt: skip
    return pd.concat(rows, ignore_index=True).assign(cases=len(cases))


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


def without_heads(choices: Choices, cases: Sequence[Case], heads: Sequence[HeadId]) -> pd.DataFrame:
    """One row per effect and head: the change of the effect without it, in nats.

    Two more per effect: that of the whole model, and, of kind `…, chosen`, the share of it that
    goes with one head, chosen on every other case and scored on the rest.
    """
    whole = effects(cases, choices.rows, choices.read())
    kept = [cases[number] for number in whole.pop("case")]
    every, tested_on = drawn_again(kept), drawn_again(kept[1::2])
    frames = []
    for effect, changes in by_head(choices, cases, heads).items():
        found = Adjusted.of(every, changes)
        each = pd.DataFrame({
            "kind": [str(head.kind) for head in heads],
            "layer": [head.layer + 1 for head in heads],
            "head": [head.head + 1 for head in heads],
            "value": found.value, "low": found.low, "high": found.high, "p": found.p,
        })  # fmt: skip
        best = int(changes[::2].mean(0).argmin())  # its removal takes most of the effect away
        share = mean(tested_on, -changes[1::2, best], whole[effect][1::2])
        total = ("whole", 0, 0, *interval(mean(every, whole[effect])))
        chosen = (f"{heads[best].kind}, chosen", heads[best].layer + 1, heads[best].head + 1,
                  *interval(share))  # fmt: skip
        first = pd.DataFrame([total, chosen], columns=["kind", "layer", "head", *NUMBERS])
        frames.append(pd.concat([first, each]).assign(effect=effect, ablated=len(kept)))
    return pd.concat(frames, ignore_index=True)


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
        count = float(significant(own.query("measure == 'stereotype'")))
        rows.append(("pronouns-stereotyped", model, count, count, count))
    named = {STEREOTYPE: "stereotype-in-one-head", AGREEMENT: "agreement-in-one-head"}
    for effect, claim in named.items():
        row = chosen_head(tables, effect)
        rows.append((claim, translator, *row[NUMBERS]))
    return claims_table(released_claim(*row) for row in rows)


def chosen_head(tables: Tables, effect: str) -> pd.Series:
    """The head whose removal takes most of an effect away: its share, on cases not chosen on."""
    rows = tables["heads"]
    return rows[(rows["effect"] == effect) & rows["kind"].str.endswith("chosen")].iloc[0]


def significant(rows: pd.DataFrame) -> int:
    """Heads that follow stereotypes: positive, adjusted p below 5 %."""
    return int(((rows["p"] < 0.05) & (rows["value"] > 0)).sum())


def opposing(rows: pd.DataFrame) -> int:
    """Heads that go against stereotypes: negative, adjusted p below 5 %."""
    return significant(rows.assign(value=-rows["value"]))


def strongest(rows: pd.DataFrame) -> str:
    """The head with the largest effect of either sign: `L2H6 −0.24`."""
    most = rows.loc[rows["value"].abs().idxmax()]
    return f"{words.head(most['layer'], most['head'])} {words.signed(most['value'])}"


def gender_rows(tables: Tables) -> pd.DataFrame:
    """Rows of the figure: right genders by kind of sentence, with the paper's shares."""
    rows = tables["genders"].set_index("of").loc[[EVERY, PRO, ANTI, HE, SHE]].reset_index()
    return rows.assign(paper=rows["of"].map(PAPER))


def role_rows(tables: Tables) -> pd.DataFrame:
    """Correlation of every role, heads by number and matched, beside another layer's."""
    rows = tables["roles"]
    other = rows[rows["heads"] == LAYER].set_index("role")["value"]
    shown = rows[rows["heads"].isin((SAME, MATCHED))]
    ends = {"_head_to_dependent": " → dependent", "_dependent_to_head": " → head"}
    names = {f"{role}{end}": f"{role}{said}" for role in RELATIONS for end, said in ends.items()}
    layer = shown["role"].map(other).where(shown["heads"] == MATCHED)
    return shown.assign(layer=layer, role=shown["role"].replace(names))


def comparisons(tables: Tables) -> pd.DataFrame:
    """Mean correlation over roles, one row per comparison."""
    rows = tables["roles"].query("role == @MEAN and heads != @BEYOND")
    return pd.DataFrame({
        "heads": rows["heads"], "mean ρ": rows["value"].map(words.signed),
        "95 % interval": [words.between(row.low, row.high) for row in rows.itertuples()],
        "random orders reach": rows["chance"].map(words.signed),
    })  # fmt: skip


def pronoun_summary(tables: Tables) -> pd.DataFrame:
    """Heads per model and weights that look from pronouns by stereotype, and at the referent."""
    rows = []
    for (model, weights), own in tables["pronouns"].groupby(["model", "weights"], sort=False):
        stereotyped, referent = (own[own["measure"] == each] for each in ("stereotype", "referent"))
        rows.append({
            "model": words.TITLES.get(model, model), "weights": SHOWN.get(weights, weights),
            "heads": len(stereotyped), "follow stereotypes": significant(stereotyped),
            "oppose them": opposing(stereotyped), "largest effect": strongest(stereotyped),
            "prefer the referent": significant(referent),
        })  # fmt: skip
    return pd.DataFrame(rows)


def shares(tables: Tables) -> pd.DataFrame:
    """One row per head of the translator: what goes with it, as shares of the whole effects.

    `loss` is the increase of the translation's loss, in nats per token.
    """
    rows = tables["heads"]
    whole = rows[rows["kind"] == "whole"].set_index("effect")["value"]
    each = rows[rows["kind"].isin(list(Kind))]
    keys = ["kind", "layer", "head"]
    wide = each.pivot(index=keys, columns="effect", values="value").reset_index()
    scaled = {name: -wide[name] / whole[name] for name in (STEREOTYPE, AGREEMENT, LEAK)}
    return wide.assign(**scaled).rename_axis(columns=None)


def top_heads(tables: Tables, count: int = 6) -> pd.DataFrame:
    """The heads that the pronoun's effect hangs on most, with what else hangs on them."""
    rows = shares(tables).nlargest(count, AGREEMENT)
    names = [f"{row.kind} {words.head(row.layer, row.head)}" for row in rows.itertuples()]
    found = {name: rows[name].map(words.percent) for name in (AGREEMENT, LEAK, STEREOTYPE)}
    loss = [f"{words.signed(each)} nats" for each in rows["loss"]]
    return pd.DataFrame({"without": names, **found, "loss": loss})


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; only the examples where nothing else is published."""
    if "genders" not in tables or "roles" not in tables:
        return {}
    of = tables["genders"].set_index("of")
    first = of.iloc[0]
    found: Facts = {
        "cases": words.count(first["cases"]), "translations": words.count(first["translations"]),
        "unread": words.count(first["unread"]), "sentences": str(tables["roles"]["sentences"][0]),
        "read": words.percent(1 - first["unread"] / first["translations"]),
    }  # fmt: skip
    keys = {EVERY: "every", PRO: "pro", ANTI: "anti", HE: "he", SHE: "she",
            "pro minus anti": "gap", "male minus female": "default",
            "the referent follows": "follows", "the other noun follows": "other"}  # fmt: skip
    for name, key in keys.items():
        found[key] = words.percent(of["value"][name])
        found[f"{key}_points"] = words.points(of["value"][name])
        found[f"{key}_estimate"] = words.estimate(*of.loc[name, NUMBERS])
    found |= {f"paper_{keys[name]}": words.percent(value) for name, value in PAPER.items()}
    mean = tables["roles"].query("role == @MEAN").set_index("heads")
    for name, key in {SAME: "same", MATCHED: "matched", LAYER: "layer", UNTRAINED: "untrained",
                      CEILING: "ceiling"}.items():  # fmt: skip
        found[f"roles_{key}"] = words.signed(mean["value"][name])
    claims = tables["claims"].drop_duplicates("claim").set_index("claim")[NUMBERS]
    for key, claim in {"same": "roles-same-number", "matched": "roles-matched"}.items():
        found[f"roles_{key}_estimate"] = words.difference(*claims.loc[claim])
    found["roles_chance"] = words.signed(mean["chance"][SAME])
    return found | _head_facts(tables)


def _head_facts(tables: Tables) -> Facts:
    rows = tables["heads"]
    found: Facts = {"ablated": str(int(rows["ablated"].iloc[0]))}
    for row in rows[rows["kind"] == "whole"].itertuples():
        found[f"{row.effect}_whole"] = f"{row.value:.1f}"
        found[f"{row.effect}_whole_interval"] = words.between(row.low, row.high, 1)
    each = shares(tables).set_index(["kind", "layer", "head"])
    for effect in (STEREOTYPE, AGREEMENT):
        row = chosen_head(tables, effect)
        found[f"{effect}_head"] = (
            f"{row['kind'].split(',')[0]} {words.head(row['layer'], row['head'])}"
        )
        found[f"{effect}_share"] = words.percent(row["value"])
        at = (row["kind"].split(",")[0], row["layer"], row["head"])
        found[f"{effect}_loss"] = f"{each['loss'][at]:.2f}"
    for model, own in tables["pronouns"].query("weights == @AS_IS").groupby("model", sort=False):
        name = str(model).replace("-", "_")
        follow = own.query("measure == 'stereotype'")
        found |= {
            f"{name}_stereotyped": str(significant(follow)), f"{name}_heads": str(len(follow)),
            f"{name}_referent": str(significant(own.query("measure == 'referent'"))),
            f"{name}_opposing": str(opposing(follow)), f"{name}_strongest": strongest(follow),
        }  # fmt: skip
    return found
