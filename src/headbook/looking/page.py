"""The page of `headbook look`: a table of heads as one HTML file that needs nothing else."""

import base64
import json
import math
from html import escape
from importlib.resources import files

import numpy as np
import pandas as pd

from headbook.artefacts.texts import Text
from headbook.looking import sections
from headbook.looking.measured import measured
from headbook.looking.roles import roles
from headbook.looking.wording import NUMBERS, SHARES, roles_of_heads
from headbook.models.loaded import Loaded
from headbook.plots.attention import sentence_weights
from headbook.types import UserError

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
        sections.attention(),
        sections.table(heads, every),
        sections.notes(of),
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


def _data(model: Loaded, text: Text, heads: pd.DataFrame, every: pd.DataFrame) -> dict:
    held = roles_of_heads(every)
    shown = [name for name in (*SHARES, *NUMBERS) if name in heads]
    rows = []
    for row in heads.to_dict("records"):
        key = (row["kind"], row["layer"], row["head"])
        values = {name: _json(row[name]) for name in shown}
        rows.append(dict(zip(("kind", "layer", "head"), key, strict=True)) | values
                    | {"roles": held.get(key, "")})  # fmt: skip
    kind = heads["kind"].iloc[0]
    own = every[(every["kind"] == kind) & every["held"]]
    first = own.iloc[own["score"].argmax()] if len(own) else heads.iloc[0]
    labels = SHARES | NUMBERS
    return {
        "heads": rows,
        "columns": [{"name": name, "label": labels[name],
                     "unit": "share" if name in SHARES else "number"} for name in shown],
        "attention": [_attention(model, sentence) for sentence in _viewed(model, text)],
        "viewed": kind,
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


def _attention(model: Loaded, sentence: str) -> dict:
    """Weights of every head as bytes, 255 for 1, in the order layer, head, query, key."""
    weights, pieces = np.stack(sentence_weights(model, sentence)), model.pieces(sentence)
    if weights.shape[-1] != len(pieces):
        raise UserError(f"{model.name}: {len(pieces)} pieces but {weights.shape[-1]} keys")
    grains = (255 * weights).round().astype(np.uint8)
    return {
        "text": sentence if len(sentence) < 60 else sentence[:58] + "…",
        "tokens": [piece.replace("▁", " ").strip() or "▁" for piece in pieces],
        "special": [span is None for span in model.spans(sentence)],
        "layers": weights.shape[0],
        "heads": weights.shape[1],
        "weights": base64.b64encode(grains.tobytes()).decode(),
    }


def _safe(data: dict) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
