"""The page of `headbook look`: a table of heads as one HTML file that needs nothing else."""

from collections.abc import Sequence
from importlib.resources import files

import pandas as pd
from jinja2 import Environment
from markupsafe import Markup

from headbook.formats import formatted
from headbook.looking.measured import Measured, measured
from headbook.looking.roles import (
    DUPLICATES,
    INDUCES,
    NEXT,
    PREVIOUS,
    RARE,
    SINK,
    SYNTACTIC,
    roles,
)
from headbook.looking.text import Text
from headbook.looking.view import view
from headbook.models.loaded import Loaded
from headbook.plots import heads as drawn
from headbook.plots.svg import without_plain
from headbook.plots.tabs import Tabs
from headbook.results import Shown, show
from headbook.runs import record
from headbook.text.trees import Direction

LISTED = 8
"""Heads of a role that are listed; all of them are in the table of every head."""
CHANGES = 20
"""Differences from another model that are listed."""
VIEWED, SHORTEST, LONGEST = 4, 6, 26
"""Sentences of the attention view, and their lengths in tokens."""
ENDS = {
    "nsubj": ("verb", "subject"),
    "dobj": ("verb", "object"),
    "amod": ("noun", "adjective"),
    "advmod": ("verb", "adverb"),
}
"""Head and dependent of each relation, as the papers call them."""
LETTERS = {
    PREVIOUS: "P",
    NEXT: "N",
    SINK: "1",
    INDUCES: "I",
    DUPLICATES: "D",
    SYNTACTIC: "S",
    RARE: "R",
}
MEASURES = {
    "confidence": "%",
    "previous": "%",
    "next": "%",
    "own": "%",
    "rare": "%",
    "special": "%",
    "entropy": ".2f",
    "importance_gradient": ".3f",
    "importance_ablation": ".3f",
}
"""Columns of the table of every head, and how they are written."""
SCALE_FREE = ", scale-free"
MAPPED = ("confidence", "special", "importance_gradient", "importance_ablation")


def page(
    model: Loaded,
    text: Text,
    heads: pd.DataFrame,
    csv: str,
    sentences: Sequence[str] = (),
    beside: tuple[str, pd.DataFrame | None] = ("", None),
) -> str:
    """The whole page as HTML; `csv` is the name of the table's file beside it.

    Attention is shown in the `sentences`, or in some of the text; `beside` is another model's name
    and what `compare` says of it.

    Whatever comes from the model or the text is escaped here, once, by the template, and in tables,
    figures and views by these themselves.
    """
    of, every = measured(heads), _named(roles(heads, held=False))
    heads = _named(heads)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shown"] = lambda each: Markup(without_plain(each._repr_html_()))
    template = files("headbook.looking").joinpath("page.html").read_text("utf-8")
    return environment.from_string(template).render(
        of=of,
        csv=csv,
        counts=heads.groupby("kind", sort=False)[["layer", "head"]].max().itertuples(),
        answer=_answer(every),
        roles=_roles(every),
        sources="; ".join(dict.fromkeys(every["source"])),
        maps=_maps(heads, every),
        attention=_attention(model, sentences or _short(model, text), heads),
        other=beside[0],
        changes=_changes(beside[1]),
        layers=_layers(heads, of),
        table=_table(heads, every),
        version=record.versions()["headbook"],
    )


def said(detail: str) -> str:
    """A candidate role's detail in words: "verb → object" where the query is the verb."""
    relation, _, direction = detail.partition("_")
    ends = ENDS.get(relation, (detail.replace("-", "−"),))
    return " → ".join(ends if direction == Direction.HEAD_TO_DEPENDENT else ends[::-1])


def _named(table: pd.DataFrame) -> pd.DataFrame:
    """With the name of every head, and each role in words."""
    if "role" in table:
        words = table["role"].where(table["role"] != SYNTACTIC, table["detail"].map(said))
        table = table.assign(words=words)
    places = zip(table["kind"], table["layer"], table["head"], strict=True)
    return table.assign(name=[f"{kind} L{layer}H{head}" for kind, layer, head in places])


def best(every: pd.DataFrame) -> pd.DataFrame:
    """Of every role and detail the head that is best on the first half, with its score on the
    second: no gain by luck."""
    found = every.dropna(subset=["chosen"])
    return found.loc[found.groupby(["role", "detail"], sort=False)["chosen"].idxmax()]


def _answer(every: pd.DataFrame) -> str:
    """Who has a role, or how near the nearest comes."""
    held = every[every["held"]]
    if len(held):
        count = held["name"].nunique()
        named = held.loc[held.groupby("role", sort=False)["score"].idxmax()]
        named = [f"{at.name} {at.words} ({formatted(at.score, '%')})"
                 for at in named.itertuples(index=False)]  # fmt: skip
        reach = "1 head reaches" if count == 1 else f"{count} heads reach"
        return f"{reach} a published threshold. The best of each role: {'; '.join(named)}."
    near = best(every).dropna(subset=["score", "threshold"])
    if near.empty:
        return "No role could be measured."
    at = near.loc[(near["threshold"] - near["score"]).idxmin()]
    score, threshold = (formatted(at[name], "%") for name in ("score", "threshold"))
    return (
        f"No head reaches a published threshold. Nearest: {at['name']}, {at['words']}, {score} "
        f"where {threshold} are required."
    )


def _roles(every: pd.DataFrame) -> Shown:
    """The best heads of every role, and of a role that none has the nearest."""
    held, nearest = every[every["held"]], best(every)
    held = held.sort_values("score", ascending=False).groupby("words").head(LISTED)
    shown = pd.concat([held, nearest[~nearest["words"].isin(held["words"])]])
    shown["order"] = shown["role"].map([*LETTERS].index)
    shown["reached"] = shown["held"].map({True: "yes", False: "no"})
    shown = shown.sort_values(["order", "words", "held", "score"], ascending=[1, 1, 0, 0])
    shares = ["threshold", "baseline", "tag_rule", "null"]
    columns = ["words", "name", "reached", "score", "low", "high", *shares]
    new = ["looks at", "head", "reached", "score", "score_low", "score_high", *shares]
    forms = dict.fromkeys(new[:3], "") | {"score": "%ci"} | dict.fromkeys(shares, "%")
    return show(shown[columns].set_axis(new, axis=1), forms)


def _maps(heads: pd.DataFrame, every: pd.DataFrame) -> Tabs:
    """Letters are roles, see LETTERS."""
    letters = every[every["held"]].groupby("name")["role"].agg(
        lambda own: "".join(LETTERS[role] for role in LETTERS if role in set(own))
    )  # fmt: skip
    heads = heads.assign(mark=heads["name"].map(letters))
    there = [name for name in MAPPED if name in heads and heads[name].notna().any()]
    return Tabs({name.replace("_", " "): drawn(heads, name, label="mark") for name in there})


def _changes(compared: pd.DataFrame | None) -> dict[str, Shown | int]:
    """Heads that gained or lost a role, and the largest differences that are no chance."""
    if compared is None:
        return {}
    named = _named(compared)
    turned = named[(named["gained"] != "") | (named["lost"] != "")]
    measures = [name for name in MEASURES if f"{name}_low" in named]
    parts = []
    for name in measures:
        ends = {f"difference{end}": named[f"{name}{end}"] for end in ("", "_low", "_high")}
        parts.append(pd.DataFrame({"head": named["name"], "measure": name} | ends))
    rows = pd.concat(parts, ignore_index=True)
    sure = rows[(rows["difference_low"] > 0) | (rows["difference_high"] < 0)]
    most = sure.loc[sure["difference"].abs().sort_values(ascending=False, kind="stable").index]
    shares = most["measure"].map(MEASURES) == "%"
    parts = ((most[shares], "+ptsci"), (most[~shares], "+.3fci"))
    return {
        "turned": len(turned),
        "roles": show(turned[["name", "gained", "lost"]].rename(columns={"name": "head"}),
                      {"head": "", "gained": "", "lost": ""}),
        "sure": len(sure),
        "most": [show(each.head(CHANGES), {"head": "", "measure": "", "difference": form})
                 for each, form in parts if len(each)],
    }  # fmt: skip


def _short(model: Loaded, text: Text) -> list[str]:
    """A few short sentences of the text."""
    sizes = {each: len(model.pieces(each)) for each in text.sentences}
    fitting = [each for each, size in sizes.items() if SHORTEST <= size <= LONGEST]
    return fitting[:VIEWED] or [min(sizes, key=sizes.get)]


def _attention(model: Loaded, sentences: Sequence[str], heads: pd.DataFrame) -> Tabs:
    """All heads in these sentences, one kind of attention at a time."""
    kinds = heads["kind"].unique()
    return Tabs({kind: view(model, [*sentences], kind=kind, units="tokens") for kind in kinds})


def _layers(heads: pd.DataFrame, of: Measured) -> Shown:
    """Means over the heads of each layer, and how different these are."""
    means = heads.groupby(["kind", "layer"], sort=False)[["confidence", "entropy", "special"]]
    means = means.mean().reset_index()
    forms = {"confidence": "%", "entropy": ".2f", "special": "%"}
    for name in of.diversity:
        if name.endswith(SCALE_FREE):
            means[name.removesuffix(SCALE_FREE)] = of.diversity[name]
            forms[name.removesuffix(SCALE_FREE)] = ".3f"
    return show(means, {"kind": "", "layer": ""} | forms)


def _table(heads: pd.DataFrame, every: pd.DataFrame) -> Shown:
    held = every[every["held"]].groupby("name")["words"].agg("; ".join)
    forms = {name: form for name, form in MEASURES.items() if name in heads}
    roles = [held.get(name, "") for name in heads["name"]]
    shown = heads[[*forms]].assign(head=heads["name"], roles=roles)
    return show(shown, {"head": "", "roles": ""} | forms)
