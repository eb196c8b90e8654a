"""Page 39: information of layers about tokens, and how layers change them (Voita et al. 2019)."""

import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity._layer_claims import claims, curve, early_share
from headbook.chapters.diversity._layer_models import Subject, Task, subjects, text_for
from headbook.chapters.diversity._layer_tables import (
    HIDDEN,
    INPUT,
    PREDICTED,
    REPLACED,
    SEEDS,
    TASKS,
    TRAINED,
    WHOLE,
    between_rows,
    compared,
    dissimilarity_rows,
    information_rows,
    step_rows,
)
from headbook.chapters.trained import Measured, at_profile
from headbook.claims.ledger import load as ledger
from headbook.runs.store import Store

NUMBER = 39
TITLE = "Does the first layer learn most of what is predicted?"
WORK = "voita2019evolution"
KEYS = ("task", "seed")
LANGUAGE, MASKED = "language model, next token", "masked language model, replaced token"
PAPER = {
    LANGUAGE: (1.81, 2.10, 2.18, 2.25, 2.30, 2.34, 2.35),
    MASKED: (0.73, 0.70, 0.96, 1.34, 2.05, 2.36, 2.38),
}
"""Nats about the predicted token from the embedding to layer six, read off the work's curves."""


Parameters = Measured


def compute(parameters: Parameters, store: Store) -> Tables:
    """Three tasks with each seed; none at `published`."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Information and distances by layer, of three tasks with each seed."""
    found = subjects(config, store)
    text = text_for(config, found[0].made)
    whole, frequency = compared(found, text)
    between, steps = between_rows(whole), step_rows(whole)
    whole.clear()  # some hundreds of megabytes
    tables = {
        "models": pd.DataFrame(map(_model_row, found)),
        "information": information_rows(found, text),
        "between": between,
        "steps": steps,
        "frequency": frequency,
        "heads": dissimilarity_rows(found, text),
    }
    return tables | {"claims": claims(found, tables)}


def _model_row(subject: Subject) -> dict[str, object]:
    made = subject.made
    return {"task": str(subject.task), "seed": subject.seed, "updates": made.run.training.updates,
            "valid_nats": made.curve["valid_loss_nats"].min()}  # fmt: skip


def predicted(tables: Tables) -> pd.DataFrame:
    """Information about the predicted token by layer, as a share of what all layers gain: task,
    layer, value, low, high (mean and range over seeds)."""
    rows = tables["information"]
    sources = {LANGUAGE: (Task.LANGUAGE, WHOLE), MASKED: (Task.MASKED, REPLACED)}
    found = [
        _shares(curve(rows, task, seed, PREDICTED, text)).rename("share").reset_index()
        .assign(task=name)
        for name, (task, text) in sources.items()
        for seed in _seeds(tables)
    ]  # fmt: skip
    return _over_seeds(pd.concat(found), "share")


def paper() -> pd.DataFrame:
    """The same of the work's curves."""
    found = [pd.DataFrame({"layer": range(7), "value": _shares(pd.Series(own)), "task": name})
             for name, own in PAPER.items()]  # fmt: skip
    return pd.concat(found, ignore_index=True)


def known(tables: Tables) -> pd.DataFrame:
    """Information about the input token by layer, on the whole text: task, layer, value, low, high,
    in nats."""
    rows = tables["information"]
    chosen = (rows["version"] == TRAINED) & (rows["text"] == WHOLE) & (rows["token"] == INPUT)
    return _over_seeds(rows[chosen], "nats")


def changes(tables: Tables) -> pd.DataFrame:
    """PWCCA distance of each layer from the one below: task, layer, value, low, high."""
    return _over_seeds(tables["steps"], "distance")


def apart(tables: Tables) -> pd.DataFrame:
    """Mean PWCCA distance over the layers, of two tasks and of two seeds: pair, value, low, high
    (smallest and largest layer)."""
    rows = tables["between"].query("layer > 0")
    seeds = rows["between"] == SEEDS
    pair = (rows["one"] + " – " + rows["other"]).mask(seeds, rows["one"] + ", two seeds")
    found = rows.assign(pair=pair).groupby(["pair", "layer"], sort=False)["distance"].mean()
    wide = found.groupby("pair", sort=False).agg(value="mean", low="min", high="max")
    return wide.sort_values("value", ascending=False).reset_index()


def frequency(tables: Tables) -> pd.DataFrame:
    """Mean change over layers two and above by frequency of the token: one row per rank bin, a
    column per task."""
    rows = tables["frequency"].query("layer > 1")
    wide = rows.pivot_table(index="ranks", columns="task", values="distance", sort=False)
    return wide.map("{:.3f}".format).reset_index().rename_axis(columns=None)


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; ranges are over seeds."""
    values = tables["claims"].groupby("claim")["value"]
    early = tables["claims"].query("claim == 'xray-information-early'")
    masked = early[early["model"].str.contains("masked")]["value"]
    gained = predicted(tables).query("layer == 3").set_index("task")["value"]
    rows = tables["between"].query("layer == layer.max()")
    floor = rows[rows["between"] == SEEDS]["distance"]
    far = rows[(rows["between"] == TASKS) & (rows["other"] == str(Task.LANGUAGE))]["distance"]
    known_claims = ledger()
    papers = {name: known_claims.claim(f"evolution-{name}").paper
              for name in ("language-early", "masked-late", "tasks-beyond-seeds")}  # fmt: skip
    forgets = known_claims.claim("evolution-language-forgets-more").paper[0]
    translation = values.agg(["min", "max"]).loc["evolution-translation-forgets"]
    falls = _falls(tables, Task.LANGUAGE)
    together = values.get_group("layers-change-with-dissimilarity")
    following = _curves(tables, Task.LANGUAGE, PREDICTED, WHOLE)
    hidden = _curves(tables, Task.MASKED, PREDICTED, HIDDEN)
    return {
        "language_early": _range(values.get_group("evolution-language-early"), words.percent),
        "language_start": _range(following[0], "{:.2f}".format),
        "language_gain": _range(following.iloc[:, -1] - following[0], "{:.2f}".format),
        "hidden_early": _range(hidden.apply(early_share, axis=1), words.percent),
        "masked_early": _range(masked, words.percent),
        "masked_late": _range(values.get_group("evolution-masked-late"), words.percent),
        "half_language": words.percent(float(gained[LANGUAGE])),
        "half_masked": words.percent(float(gained[MASKED])),
        "translation_falls": _range(translation, words.signed),
        "language_falls": _range(falls, words.signed),
        "apart": _range(far, "{:.2f}".format),
        "floor": _range(floor, "{:.2f}".format),
        "negative": str(int((together < 0).sum())),
        "models": str(len(together)),
        "seeds": str(len(_seeds(tables))),
        "updates": words.count(int(tables["models"]["updates"].max())),
        "paper_early": words.percent(papers["language-early"][0].values[0]),
        "paper_late": words.percent(papers["masked-late"][0].values[0]),
        "paper_translation": words.signed(forgets.baseline),
        "paper_language": words.signed(forgets.values[0]),
        "paper_apart": f"{papers['tasks-beyond-seeds'][1].values[0]:.2f}",
        "paper_floor": f"{papers['tasks-beyond-seeds'][1].baseline:.2f}",
    }


def _falls(tables: Tables, task: Task) -> pd.Series:
    curves = _curves(tables, task, INPUT, WHOLE)
    return curves.iloc[:, -1] - curves[0]


def _curves(tables: Tables, task: Task, token: str, text: str) -> pd.DataFrame:
    """Mutual information, one row per seed and one column per layer."""
    rows = tables["information"]
    return pd.DataFrame([curve(rows, task, seed, token, text) for seed in _seeds(tables)])


def _seeds(tables: Tables) -> list[int]:
    return sorted(set(tables["models"]["seed"].tolist()))


def _shares(nats: pd.Series) -> pd.Series:
    """Of what the layers gain over the embedding; 1 after the last layer."""
    return (nats - nats.iloc[0]) / (nats.iloc[-1] - nats.iloc[0])


def _over_seeds(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    found = rows.groupby(["task", "layer"], sort=False)[column]
    return found.agg(value="mean", low="min", high="max").reset_index()


def _range(values: pd.Series, form) -> str:
    """Smallest to largest as `form` has it, and one text where both read alike."""
    ends = (form(float(values.min())), form(float(values.max())))
    return " to ".join(dict.fromkeys(ends))
