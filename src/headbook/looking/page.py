"""The page of `headbook look`: a table of heads as one HTML file that needs nothing else."""

import json
import math
from html import escape
from importlib.resources import files

import pandas as pd

from headbook.looking import sections
from headbook.looking.measured import measured
from headbook.looking.roles import roles
from headbook.looking.text import Text
from headbook.looking.view import of_every_kind, short_sentences
from headbook.looking.wording import NUMBERS, SHARES, roles_of_heads
from headbook.models.loaded import Loaded
from headbook.plots.view import View, choice

VIEWED, SHORTEST, LONGEST = 4, 6, 26
"""Sentences of the attention view, and their lengths in tokens."""


def page(model: Loaded, text: Text, heads: pd.DataFrame, csv: str) -> str:
    """The whole page as HTML; `csv` is the name of the table's file beside it."""
    of, every = measured(heads), roles(heads, held=False)
    parts = [
        sections.top(of, heads, every, csv),
        sections.roles(every),
        sections.layer_map(),
        sections.relations(of, every),
        sections.special(heads, of),
        sections.diversity(of),
        sections.attention(_attention(model, text, heads, every)),
        sections.table(heads, every),
        sections.notes(of),
    ]
    template = files("headbook.looking").joinpath("page.html").read_text("utf-8")
    filled = {
        "title": escape(f"Heads of {of.model}"),
        "data": _safe(_data(heads, every)),
        "body": "\n".join(parts),
    }
    for name, value in filled.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def _data(heads: pd.DataFrame, every: pd.DataFrame) -> dict:
    held = roles_of_heads(every)
    shown = [name for name in (*SHARES, *NUMBERS) if name in heads]
    rows = []
    for row in heads.to_dict("records"):
        key = (row["kind"], row["layer"], row["head"])
        values = {name: _json(row[name]) for name in shown}
        rows.append(dict(zip(("kind", "layer", "head"), key, strict=True)) | values
                    | {"roles": held.get(key, "")})  # fmt: skip
    labels = SHARES | NUMBERS
    return {
        "heads": rows,
        "columns": [{"name": name, "label": labels[name],
                     "unit": "share" if name in SHARES else "number"} for name in shown],
    }  # fmt: skip


def _json(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.5g}")


def _attention(model: Loaded, text: Text, heads: pd.DataFrame, every: pd.DataFrame) -> View:
    """All heads in a few sentences, the best of those with a role first."""
    own = every[(every["kind"] == heads["kind"].iloc[0]) & every["held"]]
    first = own.iloc[own["score"].argmax()] if len(own) else heads.iloc[0]
    sentences = short_sentences(model, text.sentences, VIEWED, SHORTEST, LONGEST)
    place = int(first["layer"]) - 1, int(first["head"]) - 1
    return choice(of_every_kind(model, sentences, place))


def _safe(data: dict) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
