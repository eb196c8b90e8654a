"""Page 60: the public interface in five lines, on any model and text."""

from dataclasses import dataclass

import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.looking.load import load
from headbook.looking.measure import measure
from headbook.looking.roles import roles
from headbook.looking.text import text
from headbook.runs.store import Store

NUMBER = 60
TITLE = "Which of your model's heads does what?"
WORK = "headbook"
KEYS = ("model", "text", "sentences", "nulls")


@dataclass(frozen=True)
class Parameters:
    """A model that `hb.load` knows, a text that `hb.text` knows, and how much of it."""

    model: str = "firefox-en-pt"
    text: str = "ewt-sample"
    sentences: int | None = 100
    nulls: int = 1


def compute(parameters: Parameters, store: Store) -> Tables:
    """Result of the page's five lines: every head, and the heads that hold a role."""
    found = text(parameters.text, first=parameters.sentences)
    heads = measure(
        load(parameters.model), found, importance=False, nulls=parameters.nulls, progress=False
    )
    labels = {"model": parameters.model, "text": parameters.text,
              "sentences": len(found.sentences), "nulls": parameters.nulls}  # fmt: skip
    plain = pd.DataFrame(heads.to_dict("list"))
    return {"heads": plain.assign(**labels), "roles": roles(heads).assign(**labels)}


def facts(tables: Tables) -> Facts:
    """Heads and roles of the first model of the tables, the page's own."""
    heads, held = tables["heads"], tables["roles"]
    heads, held = (each[each["model"] == heads["model"].iloc[0]] for each in (heads, held))
    at = held.drop_duplicates(["kind", "layer", "head"])
    previous = held[held["role"] == "previous token"]
    found: Facts = {
        "heads": words.count(len(heads)),
        "with_role": words.count(len(at)),
        "sentences": words.count(heads["sentences"].iloc[0]),
    }
    if len(previous):
        best = previous.iloc[0]
        found |= {"previous_head": words.head(best["layer"], best["head"]),
                  "previous": words.estimate(best["score"], best["low"], best["high"])}  # fmt: skip
    return found
