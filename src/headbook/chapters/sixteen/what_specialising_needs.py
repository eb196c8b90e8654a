"""Page 27: which of updates, batches, text, width and objective makes heads specialise."""

import math
from collections.abc import Iterator

import pandas as pd

from headbook.artefacts.costs import spent_by
from headbook.artefacts.heads import WithEncoder
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.specialising import Change
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import measure, text_of
from headbook.chapters.sixteen._curves import score
from headbook.chapters.sixteen._specialisation import (
    ANY_OFFSET,
    BLEU,
    CONFIDENCE,
    Score,
    most_confident,
    offset_of,
    sharpest,
)
from headbook.chapters.tables import claim_row, mean_claims, model_labels
from headbook.chapters.trained import Parsed, at_profile
from headbook.heads.positional import Place
from headbook.runs.store import Store
from headbook.statistics import over_seeds

NUMBER = 27
TITLE = "What does specialising need?"
WORK = "headbook"
KEYS = ("model", "seed")
CLAIMS = {
    # every claim: more of the first than of the second
    "neighbour-needs-updates": (Change.UPDATES, Change.NONE),
    "neighbour-needs-small-batches": (Change.BATCHES, Change.NONE),
    "neighbour-needs-text": (Change.NONE, Change.PAIRS),
    "neighbour-needs-width": (Change.WIDTH, Change.NONE),
    "neighbour-needs-updates-over-width": (Change.UPDATES, Change.WIDTH),
    "neighbour-needs-masking": (Change.OBJECTIVE, Change.NONE),
}
RECIPE = ["updates", "tokens", "pairs", "width"]
SHARES = (ANY_OFFSET, *map(str, Score), CONFIDENCE)
"""Columns that are shares of tokens, or differences of such; published tables have some of them."""
NAMES = {
    ANY_OFFSET: "one offset, own token among them",
    str(Score.NEIGHBOUR): "a neighbour",
    str(Score.OWN): "own token",
    str(Score.OTHER): "offset farther away",
    str(Score.MARGIN): "over the offset baseline",
    str(Score.RARE): "two rarest",
    CONFIDENCE: "confidence",
}
"""Their names in figures and tables."""


Parameters = Parsed


def compute(parameters: Parameters, store: Store) -> Tables:
    """The model and each change of it with the profile's seeds; none at `published`."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Every checkpoint of the model and of each change: BLEU and its most specialised heads."""
    rows = [
        row
        for change, run in config.specialising().runs()
        for row in _rows(change, run.trained(store), config, store)
    ]
    checkpoints = pd.DataFrame(rows)
    return {"checkpoints": checkpoints, "claims": _claims(checkpoints)}


def _rows(
    change: Change, model: WithEncoder, config: Config, store: Store
) -> Iterator[dict[str, object]]:
    """One row per checkpoint, on the held-out sentences of the corpus; BLEU of translation alone.

    With the head that is most at a neighbour, and at which.
    """
    run, text = model.run, text_of(model, HELD_OUT, config, store)
    named = model_labels(model)
    named["model"] = f"{named['corpus']} {change}"
    recipe = {
        "change": str(change), "updates": run.training.updates, "tokens": run.training.tokens,
        "pairs": len(model.corpus.train), "width": run.size.width,
        "head_width": run.size.width // run.size.heads,
    }  # fmt: skip
    for update in (0, *model.snapshots):
        sums = measure(model, text, store, update=update).sums
        found = {each: sharpest(sums, each) for each in Score}
        neighbour = found[Score.NEIGHBOUR]
        yield {
            **named, **recipe, "update": update, "tflop": spent_by(run, update) / 1e12,
            BLEU: _bleu(model, update, config, store),
            **{str(each): best.value for each, best in found.items()},
            "neighbour_offset": offset_of(neighbour, Place.NEIGHBOUR),
            "neighbour_layer": neighbour.layer + 1,
            CONFIDENCE: most_confident(sums).value,
        }  # fmt: skip


def _bleu(model: WithEncoder, update: int, config: Config, store: Store) -> float:
    """NaN for a model that does not translate."""
    if not isinstance(model, TrainedModel):
        return math.nan
    return float(score(model, (), config.preset.pruning.translated, store, update).bleu[0])


def _last(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """The row of the last update of every change and seed."""
    return checkpoints[checkpoints["update"] == checkpoints["updates"]]


def _claims(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """One row per claim: the first change minus the second, mean over seeds."""
    last = _last(checkpoints).set_index(["change", "seed"])
    rows = []
    for claim, (more, less) in CLAIMS.items():
        own = (more, less)[more is Change.NONE]
        for seed, row in last.loc[str(own)].iterrows():
            ends = [last.loc[(str(each), seed), str(Score.NEIGHBOUR)] for each in (more, less)]
            rows.append(claim_row(claim, {**row.to_dict(), "seed": seed}, ends[0] - ends[1]))
    return mean_claims(pd.DataFrame(rows))


def gains(tables: Tables) -> pd.DataFrame:
    """Each change minus the model as it is at the last update: change, score, value, low, high.

    Mean over seeds and Student's interval; `score` is BLEU, of translation, or one of SHARES.
    """
    rows = _last(tables["checkpoints"]).pivot(index="seed", columns="change")
    found = []
    for name in (BLEU, *_shares(tables["checkpoints"])):
        of = rows[name].dropna(axis="columns")
        for change in [str(each) for each in Change if each is not Change.NONE and each in of]:
            summary = over_seeds((of[change] - of[str(Change.NONE)]).to_numpy())
            found.append({"change": change, "score": name, "value": summary.mean,
                          "low": summary.low, "high": summary.high})  # fmt: skip
    return pd.DataFrame(found)


def of_shares(tables: Tables) -> pd.DataFrame:
    """The same without BLEU, scores by their names."""
    rows = gains(tables)
    return rows[rows["score"] != BLEU].replace({"score": NAMES})


def through(tables: Tables, column: str) -> pd.DataFrame:
    """A column against updates: change, update, value, low, high (mean and range over seeds)."""
    found = tables["checkpoints"].groupby(["change", "update"], sort=False)[column]
    return found.agg(value="mean", low="min", high="max").reset_index()


def last(tables: Tables) -> pd.DataFrame:
    """Trainings and their scores at the last update, means over seeds; untrained first."""
    rows = tables["checkpoints"]
    untrained = rows[(rows["change"] == Change.NONE) & (rows["update"] == 0)]
    shares = _shares(rows)
    both = pd.concat([untrained.assign(change="untrained", updates=0, tflop=0.0), _last(rows)])
    groups = both.groupby("change", sort=False)
    table = groups[[*RECIPE, "tflop"]].first().map("{:,.0f}".format)
    table["BLEU"] = groups[BLEU].mean().map("{:.1f}".format)
    for name in shares:
        table[NAMES[name]] = groups[name].mean().map("{:.2f}".format)
    return table.rename(columns={"tokens": "tokens per batch", "tflop": "TFLOP"}).reset_index()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of tables that do not tell the offset, as they are published."""
    rows = gains(tables).set_index(["change", "score"])
    ends = _last(tables["checkpoints"]).groupby("change")
    found: Facts = {"seeds": str(tables["checkpoints"]["seed"].nunique())}
    for key, change in (("updates", Change.UPDATES), ("batches", Change.BATCHES),
                        ("pairs", Change.PAIRS), ("width", Change.WIDTH)):  # fmt: skip
        row = rows.loc[(str(change), ANY_OFFSET)]
        found[f"{key}_gain"] = words.signed(100 * row["value"], 1)
        found[f"{key}_interval"] = words.between(100 * row["low"], 100 * row["high"], 1)
        found[f"{key}_bleu"] = words.signed(rows.loc[(str(change), BLEU), "value"], 1)
        found[f"{key}_any"] = words.percent(float(ends[ANY_OFFSET].mean()[str(change)]))
    as_it_is = str(Change.NONE)
    both = tables["claims"].set_index("claim").loc["needs-updates-over-width"]
    rare = rows.loc[(str(Change.UPDATES), Score.RARE)]
    return found | {
        "base_any": words.percent(float(ends[ANY_OFFSET].mean()[as_it_is])),
        "base_bleu": f"{ends[BLEU].mean()[as_it_is]:.1f}",
        "long_bleu": f"{ends[BLEU].mean()[str(Change.UPDATES)]:.1f}",
        "over_width": words.signed(100 * both["value"], 1),
        "over_width_interval": words.between(100 * both["low"], 100 * both["high"], 1),
        "rare_gain": words.signed(100 * rare["value"], 1),
        "rare_interval": words.between(100 * rare["low"], 100 * rare["high"], 1),
    }


def _shares(checkpoints: pd.DataFrame) -> list[str]:
    """The columns of SHARES that the table has."""
    return [name for name in SHARES if name in checkpoints]
