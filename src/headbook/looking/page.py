"""The page of `headbook look`: a table of heads as one HTML file that needs nothing else."""

import base64
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

import pandas as pd
import torch

from headbook import __version__
from headbook.looking.measured import Measured, measured
from headbook.looking.roles import NEXT, PREVIOUS, RARE, SYNTACTIC, roles
from headbook.models.capture import Point, capture
from headbook.models.loaded import Loaded
from headbook.stages.texts import Text
from headbook.types import Kind, UserError

VIEWED, SHORTEST, LONGEST = 4, 6, 26
"""Sentences of the attention view, and their lengths in tokens."""
ARROWS = {"head_to_dependent": "head → dependent", "dependent_to_head": "dependent → head"}
WORDS = {
    "nsubj": "subject (nsubj)",
    "dobj": "object (dobj)",
    "amod": "adjective (amod)",
    "advmod": "adverb (advmod)",
}
SHARES = {
    "confidence": "confidence",
    "previous": "previous token",
    "next": "next token",
    "own": "own token",
    "rare": "rare words",
    "special": "special tokens",
}
"""Columns between 0 and 1 and how the page calls them."""
NUMBERS = {
    "entropy": "entropy (nats)",
    "importance_gradient": "importance, gradient",
    "importance_ablation": "importance, removed",
}


def page(model: Loaded, text: Text, heads: pd.DataFrame, csv: str) -> str:
    """The whole page as HTML; `csv` is the name of the table's file beside it."""
    of, every = measured(heads), roles(heads, held=False)
    parts = [
        _top(of, heads, every, csv),
        _roles(every),
        _map(),
        _relations(of, every),
        _special(heads, of),
        _diversity(of),
        _attention_controls(),
        _table(heads, every),
        _notes(of),
    ]
    template = files("headbook.looking").joinpath("page.html").read_text("utf-8")
    filled = {
        "title": escape(f"Heads of {of.model}"),
        "body": "\n".join(parts),
        "data": _safe(_data(model, text, heads, every)),
    }
    for name, value in filled.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def name_of(layer: int, head: int) -> str:
    return f"L{layer}H{head}"


def percent(value: float) -> str:
    """A share as a whole percentage; a dash where nothing counted."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.0f} %"


def interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"[{100 * low:.0f}, {100 * high:.0f}]"


def said(detail: str) -> str:
    """A candidate role's detail in words: "object (dobj), head → dependent"."""
    relation, _, direction = detail.partition("_")
    if direction not in ARROWS:
        return {"-1": "−1", "+1": "+1"}.get(detail, detail)
    return f"{WORDS[relation]}, {ARROWS[direction]}"


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "", texts: int = 1
) -> str:
    """A table whose first `texts` columns are text; cells are HTML."""
    head = "".join(
        f'<th scope="col"{_text(at, texts)}>{name}</th>' for at, name in enumerate(columns)
    )
    lines = []
    for row in rows:
        cells = "".join(f"<td{_text(at, texts)}>{each}</td>" for at, each in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    named = f"<caption>{caption}</caption>" if caption else ""
    body = "".join(lines)
    return (
        f'<div class="wide"><table>{named}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _text(at: int, texts: int) -> str:
    return ' class="text"' if at < texts else ""


def best_candidates(every: pd.DataFrame) -> pd.DataFrame:
    """Of every role and detail the head that is best on the first half, with its score on the
    second: no gain by luck."""
    found = every.dropna(subset=["chosen"])
    rows = found.groupby(["role", "detail"], sort=False)["chosen"].idxmax()
    return found.loc[rows]


def _top(of: Measured, heads: pd.DataFrame, every: pd.DataFrame, csv: str) -> str:
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
            f"{name_of(row.layer, row.head)} {escape(_role(row))} ({percent(row.score)})"
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
        f"{name_of(row.layer, row.head)}, {escape(_role(row))}, {percent(row.score)} where "
        f"{percent(row.threshold)} are asked for.</p>"
    )


def _role(row: object) -> str:
    return f"{row.role}: {said(row.detail)}" if row.role == SYNTACTIC else row.role


def _confident(heads: pd.DataFrame) -> str:
    first = heads[heads["kind"] == heads["kind"].iloc[0]]
    top = first.loc[first["confidence"].idxmax()]
    return (
        f"<p>Most confident {top['kind']} head: {name_of(top['layer'], top['head'])} "
        f"({percent(top['confidence'])}; median {percent(first['confidence'].median())}).</p>"
    )


def _roles(every: pd.DataFrame) -> str:
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
            f"<small>{escape(row.source)}</small>",
        )
        for row in shown.itertuples()
    ]
    caption = (
        "Chosen on one half of the sentences, scored on the other; brackets: 95 % interval over "
        "sentences. Baseline: best fixed offset (syntax), pointing everywhere alike (rare words). "
        "Null: best head of networks with permuted or drawn weights."
    )
    columns = ("role", "head", "reached", "score", "threshold", "baseline", "null", "source")
    return f"<h2>Roles</h2>\n{html_table(columns, rows, caption, texts=3)}"


def _map() -> str:
    return (
        '<h2>Heads by layer</h2>\n<div class="controls">'
        '<label>Measure <select id="column"></select></label>'
        '<label>Attention <select id="kind"></select></label></div>\n'
        '<div class="wide"><table id="map"></table></div>\n'
        '<p class="soft">Shares in percent. Underlined heads have a role. Choose a head to see its '
        "attention.</p>"
    )


def _relations(of: Measured, every: pd.DataFrame) -> str:
    best = best_candidates(every[every["role"] == SYNTACTIC])
    if best.empty:
        return "<h2>Relations</h2>\n<p>Not measured; see the notes.</p>"
    from headbook.plots import intervals

    best = best.iloc[[*best["detail"].argsort(kind="stable")]].assign(
        relation=lambda rows: rows["detail"].map(said)
    )
    figure = intervals(
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


def _special(heads: pd.DataFrame, of: Measured) -> str:
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
        f"<p>On average {percent(first['special'].mean())} of a {most['kind']} head's weight goes "
        f"to special tokens; {name_of(most['layer'], most['head'])} gives them "
        f"{percent(most['special'])}. Measures of real tokens leave them out.</p>\n"
        f"{html_table(columns, rows)}"
    )


def _diversity(of: Measured) -> str:
    table = of.diversity
    metrics = [name for name in table if name.endswith("scale-free")]
    raw = [name for name in table if name.endswith("raw")]
    return (
        "<h2>Diversity</h2>\n"
        + html_table(
            ("layer", *(name.removesuffix(", scale-free") for name in metrics)),
            _diversity_rows(table, metrics),
            "Scale-free forms, means over pairs of heads. High orthogonality values mean alike "
            "heads; high dissimilarity and attention diversity mean unlike ones.",
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


def _attention_controls() -> str:
    selects = "".join(
        f'<label>{name.capitalize()} <select id="{name}"></select></label>'
        for name in ("sentence", "layer", "head")
    )
    return (
        f'<h2 id="attention">Attention</h2>\n<div class="controls">{selects}</div>\n'
        '<p class="soft" id="said" aria-live="polite"></p>\n'
        '<svg id="view" role="group" aria-label="Attention from tokens on the left to tokens on '
        'the right"></svg>'
    )


def _table(heads: pd.DataFrame, every: pd.DataFrame) -> str:
    shown = {name: label for name, label in {**SHARES, **NUMBERS}.items() if name in heads}
    columns = ["head", "roles", *shown.values()]
    head = "".join(
        f'<th scope="col"><button type="button">{name}</button></th>' for name in columns
    )
    held = _held(every)
    body = []
    for row in heads.to_dict("records"):
        label = f"{row['kind']} {name_of(row['layer'], row['head'])}"
        key = (row["kind"], row["layer"], row["head"])
        order = f"{row['kind']} {row['layer']:03d} {row['head']:03d}"
        cells = [
            f'<th scope="row" data-value="{order}">{label}</th>',
            f'<td class="text" data-value="{escape(held.get(key, ""))}">'
            f"{escape(held.get(key, ''))}</td>",
        ]
        for name in shown:
            value = row[name]
            written = percent(value) if name in SHARES else _number(value)
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


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2g}"


def _held(every: pd.DataFrame) -> dict[tuple[str, int, int], str]:
    """Every head's roles in words."""
    found: dict[tuple[str, int, int], list[str]] = {}
    for row in every[every["held"]].itertuples():
        found.setdefault((row.kind, row.layer, row.head), []).append(_role(row))
    return {key: "; ".join(names) for key, names in found.items()}


def _notes(of: Measured) -> str:
    counts = {
        "translated": "translated for decoder and cross-attention and importance",
        "ablated": "used to remove every head in turn",
        "nulls": f"given to {of.null_count} null networks",
    }
    lines = [f"{of.sentences[name]:,} sentences were {what}."
             for name, what in counts.items() if name in of.sentences]  # fmt: skip
    if of.importance:
        lines.append(f"Importance of a removed head is in {of.importance}.")
    lines += [
        *of.notes,
        "Ranks of rare words are of counts in this text. Positions are counted in tokens, "
        "relations in words, with attention to a word summed over its pieces.",
        f"Written by headbook {__version__}.",
    ]
    return "<h2>Notes</h2>\n<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _data(model: Loaded, text: Text, heads: pd.DataFrame, every: pd.DataFrame) -> dict:
    held = _held(every)
    shown = [name for name in (*SHARES, *NUMBERS) if name in heads]
    rows = []
    for row in heads.to_dict("records"):
        key = (row["kind"], row["layer"], row["head"])
        values = {name: _json(row[name]) for name in shown}
        rows.append(dict(zip(("kind", "layer", "head"), key, strict=True)) | values
                    | {"roles": held.get(key, "")})  # fmt: skip
    kind = Kind(heads["kind"].iloc[0])
    own = every[(every["kind"] == str(kind)) & every["held"]]
    first = own.iloc[own["score"].argmax()] if len(own) else heads.iloc[0]
    labels = SHARES | NUMBERS
    return {
        "heads": rows,
        "columns": [{"name": name, "label": labels[name],
                     "unit": "share" if name in SHARES else "number"} for name in shown],
        "attention": [_attention(model, sentence, kind) for sentence in _viewed(model, text)],
        "viewed": str(kind),
        "first": [int(first["layer"]), int(first["head"])],
    }  # fmt: skip


def _json(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.5g}")


def _viewed(model: Loaded, text: Text) -> list[str]:
    """The first sentences that are neither very short nor too long to be drawn."""
    found = []
    for sentence in text.sentences:
        if SHORTEST <= len(model.pieces(sentence)) <= LONGEST:
            found.append(sentence)
        if len(found) == VIEWED:
            break
    return found or [min(text.sentences, key=len)]


@torch.inference_mode()
def _attention(model: Loaded, sentence: str, kind: Kind) -> dict:
    """Weights of every head as bytes, 255 for 1, in the order layer, head, query, key."""
    (batch,) = model.batches([sentence])
    with capture(model.network, {Point.WEIGHTS}) as tape:
        model.network(batch.to(next(model.network.parameters()).device))
    weights = torch.stack([layer[0] for layer in tape[kind, Point.WEIGHTS]]).float().cpu()
    pieces = model.pieces(sentence)
    if weights.shape[-1] != len(pieces):
        raise UserError(f"{model.name}: {len(pieces)} pieces but {weights.shape[-1]} keys")
    grains = (weights * 255).round().to(torch.uint8)
    return {
        "text": sentence if len(sentence) < 60 else sentence[:58] + "…",
        "tokens": [piece.replace("▁", " ").strip() or "▁" for piece in pieces],
        "special": [span is None for span in model.spans(sentence)],
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "weights": base64.b64encode(grains.numpy().tobytes()).decode(),
    }


def _safe(data: dict) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
