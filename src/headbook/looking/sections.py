"""The parts of the page of `headbook look`, each as HTML."""

import math
from html import escape

import pandas as pd

from headbook.looking.measured import Measured
from headbook.looking.roles import NEXT, PREVIOUS, RARE, SYNTACTIC
from headbook.looking.table import RELATIONS
from headbook.looking.wording import (
    NUMBERS,
    SHARES,
    best_candidates,
    html_table,
    in_words,
    interval,
    name_of,
    number,
    percent,
    roles_of_heads,
    said,
)
from headbook.plots import intervals as forest
from headbook.plots.view import View
from headbook.runs import record


def top(of: Measured, heads: pd.DataFrame, every: pd.DataFrame, csv: str) -> str:
    held = every[every["held"]]
    counted = ", ".join(
        f"{len(rows)} {kind} heads ({int(rows['layer'].max())} × {int(rows['head'].max())})"
        for kind, rows in heads.groupby("kind", sort=False)
    )
    sentences = f"{of.sentences['all']:,} sentences of {escape(of.text)}"
    return (
        f"<h1>Heads of {escape(of.model)}</h1>\n"
        f'<p class="soft">{escape(of.origin)}</p>\n'
        f'<p class="soft">{counted}; {sentences}. <a href="{escape(csv)}">Table (CSV)</a></p>\n'
        f'<div class="answer">{_answer(held, every)}{_confident(heads)}</div>'
    )


def _answer(held: pd.DataFrame, every: pd.DataFrame) -> str:
    """One or two sentences: who has a role, or how near the nearest comes."""
    if len(held):
        count = len(held[["kind", "layer", "head"]].drop_duplicates())
        best = held.loc[held.groupby("role", sort=False)["score"].idxmax()]
        named = "; ".join(
            f"{name_of(row.layer, row.head)} {escape(in_words(row))} ({percent(row.score)})"
            for row in best.itertuples()
        )
        heads = "1 head reaches" if count == 1 else f"{count} heads reach"
        return f"<p><strong>{heads} a published threshold.</strong> The best of each: {named}.</p>"
    near = best_candidates(every)
    near = near.assign(missing=near["threshold"] - near["score"]).nsmallest(1, "missing")
    if near.empty:
        return "<p><strong>No role could be measured.</strong></p>"
    row = next(near.itertuples())
    return (
        "<p><strong>No head reaches a published threshold.</strong> Nearest: "
        f"{name_of(row.layer, row.head)}, {escape(in_words(row))}, {percent(row.score)} where "
        f"{percent(row.threshold)} are required.</p>"
    )


def _confident(heads: pd.DataFrame) -> str:
    first = heads[heads["kind"] == heads["kind"].iloc[0]]
    top = first.loc[first["confidence"].idxmax()]
    return (
        f"<p>Most confident {top['kind']} head: {name_of(top['layer'], top['head'])} "
        f"({percent(top['confidence'])}; median {percent(first['confidence'].median())}).</p>"
    )


def roles(every: pd.DataFrame) -> str:
    """All roles held, and the nearest head where none is."""
    held, best = every[every["held"]], best_candidates(every)
    absent = best[~best["role"].isin(set(held["role"]))]
    absent = absent.loc[absent.groupby("role", sort=False)["score"].idxmax()]
    order = {PREVIOUS: 0, NEXT: 1, SYNTACTIC: 2, RARE: 3}
    shown = pd.concat([held, absent]) if len(held) else absent
    shown = shown.assign(order=shown["role"].map(order)).sort_values(
        ["order", "held", "score"], ascending=[True, False, False]
    )
    rows = [
        (
            f"{row.role}" + ("" if row.role != SYNTACTIC else f": {said(row.detail)}"),
            f"{row.kind} {name_of(row.layer, row.head)}",
            '<span class="held">yes</span>' if row.held else "no, nearest",
            f"{percent(row.score)} {interval(row.low, row.high)}",
            percent(row.threshold),
            percent(row.baseline),
            percent(row.null),
        )
        for row in shown.itertuples()
    ]
    caption = (
        "Chosen on one half of the sentences, scored on the other; brackets: 95 % interval over "
        "sentences. Baseline: best fixed offset (syntax), a uniform head (rare words). "
        "Null: best head of networks with permuted or redrawn weights."
    )
    columns = ("role", "head", "reached", "score", "threshold", "baseline", "null")
    sources = "; ".join(dict.fromkeys(shown["source"]))
    return (
        f"<h2>Roles</h2>\n{html_table(columns, rows, caption, texts=3)}\n"
        f'<p class="soft">Thresholds: {escape(sources)}.</p>'
    )


def layer_map() -> str:
    return (
        '<h2>Heads by layer</h2>\n<div class="controls">'
        '<label>Measure <select id="column"></select></label>'
        '<label>Attention <select id="kind"></select></label></div>\n'
        '<div class="wide"><table id="map"></table></div>\n'
        '<p class="soft">Shares in percent. Underlined heads have a role. Choose a head to see its '
        "attention.</p>"
    )


def relations(of: Measured, every: pd.DataFrame) -> str:
    best = best_candidates(every[every["role"] == SYNTACTIC])
    if best.empty:
        return "<h2>Relations</h2>\n<p>Not measured; see the notes.</p>"
    best = best.sort_values("detail", key=lambda names: names.map(RELATIONS.index)).assign(
        relation=lambda rows: rows["detail"].map(said)
    )
    figure = forest(
        best,
        "relation",
        value="score",
        marks={"baseline": "baseline", "tag_rule": "rule", "null": "random"},
        labels={"baseline": "fixed offset", "tag_rule": "part-of-speech rule", "null": "null"},
        xlabel="share of arcs found by the best head",
        limits=(0, 1),
        alt="Accuracy of the best head for each relation and direction, beside its baselines",
    )
    rows = [
        (row.relation, name_of(row.layer, row.head),
         f"{percent(row.score)} {interval(row.low, row.high)}", percent(row.baseline),
         percent(row.tag_rule), percent(row.null))
        for row in best.itertuples()
    ]  # fmt: skip
    columns = ("relation", "best head", "score", "fixed offset", "part-of-speech rule", "null")
    trees = "gold trees" if of.parser == "gold" else f"trees of {escape(of.parser)}"
    caption = f"Best encoder head of each relation and direction; {trees}."
    return (
        f"<h2>Relations</h2>\n<figure>{figure.svg()}</figure>\n"
        f"{html_table(columns, rows, caption, texts=2)}"
    )


def special(heads: pd.DataFrame, of: Measured) -> str:
    means = heads.groupby(["kind", "layer"], sort=False)
    rows = [
        (f"{kind} L{layer}", percent(rows["special"].mean()), percent(rows["special"].max()),
         f"{rows['entropy'].mean():.2f}", percent(rows["confidence"].mean()))
        for (kind, layer), rows in means
    ]  # fmt: skip
    first = heads[heads["kind"] == heads["kind"].iloc[0]]
    most = first.loc[first["special"].idxmax()]
    columns = ("layer", "special, mean", "special, most", "entropy, mean", "confidence, mean")
    return (
        "<h2>Special tokens</h2>\n"
        f"<p>On average {percent(first['special'].mean())} of {most['kind']} heads' weight goes "
        f"to special tokens; {name_of(most['layer'], most['head'])} gives them "
        f"{percent(most['special'])}. Measures of real tokens leave them out.</p>\n"
        f"{html_table(columns, rows)}"
    )


def diversity(of: Measured) -> str:
    table = of.diversity
    if table.empty:  # left out
        return ""
    metrics = [name for name in table if name.endswith("scale-free")]
    raw = [name for name in table if name.endswith("raw")]
    return (
        "<h2>Diversity</h2>\n"
        + html_table(
            ("layer", *(name.removesuffix(", scale-free") for name in metrics)),
            _diversity_rows(table, metrics),
            "Scale-free forms, means over pairs of heads. High orthogonality values mean "
            "similar heads; high dissimilarity and attention diversity mean different ones.",
        )
        + "<details><summary>Raw forms, as published</summary>"
        + html_table(
            ("layer", *(name.removesuffix(", raw") for name in raw)), _diversity_rows(table, raw)
        )
        + "</details>"
    )


def _diversity_rows(table: pd.DataFrame, metrics: list[str]) -> list[tuple[str, ...]]:
    return [
        (f"{row['kind']} L{row['layer']}", *(f"{row[name]:.3g}" for name in metrics))
        for _, row in table.iterrows()
    ]


def attention(shown: View) -> str:
    return f'<h2 id="attention">Attention</h2>\n{shown._repr_html_()}'


def table(heads: pd.DataFrame, every: pd.DataFrame) -> str:
    shown = {name: label for name, label in {**SHARES, **NUMBERS}.items() if name in heads}
    columns = ["head", "roles", *shown.values()]
    head = "".join(
        f'<th scope="col"><button type="button">{name}</button></th>' for name in columns
    )
    held = roles_of_heads(every)
    body = []
    for row in heads.to_dict("records"):
        label = f"{row['kind']} {name_of(row['layer'], row['head'])}"
        key = (row["kind"], row["layer"], row["head"])
        order = f"{row['kind']} {row['layer']:03d} {row['head']:03d}"
        cells = [
            f'<th scope="row" data-value="{order}">{label}</th>',
            f'<td class="text roles" data-value="{escape(held.get(key, ""))}">'
            f"{escape(held.get(key, ''))}</td>",
        ]
        for name in shown:
            value = row[name]
            written = percent(value) if name in SHARES else number(value)
            cells.append(f'<td data-value="{value:.6g}"{_range(row, name)}>{written}</td>')
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        '<h2>All heads</h2>\n<p class="soft">A click on a column\'s name sorts by it.</p>\n'
        f'<div class="wide"><table id="heads"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _range(row: dict, name: str) -> str:
    """The interval as a tooltip."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or math.isnan(low):
        return ""
    return f' title="95 % interval [{low:.3g}, {high:.3g}]"'


def notes(of: Measured) -> str:
    counts = {
        "translated": "translated for decoder and cross-attention and importance",
        "ablated": "used to remove every head in turn",
        "nulls": f"given to {of.null_count} null networks",
    }
    lines = [f"{of.sentences[name]:,} sentences were {what}."
             for name, what in counts.items() if name in of.sentences]  # fmt: skip
    if of.importance:
        lines.append(f"The effect of removing a head is measured in {of.importance}.")
    lines += [
        *of.notes,
        "Ranks of rare words come from counts in this text. Positions are counted in tokens, "
        "relations in words, with attention to a word summed over its pieces.",
        f"Written by headbook {record.versions()['headbook']}.",
    ]
    return "<h2>Notes</h2>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
