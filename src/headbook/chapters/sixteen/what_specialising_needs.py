"""Page 27: which of updates, batches, text, width and objective makes heads specialise."""

import math
from collections.abc import Iterator

import pandas as pd
from scipy.stats import ttest_1samp

from headbook.artefacts.costs import spent_by
from headbook.artefacts.heads import Measured, WithEncoder
from headbook.artefacts.model import TrainedModel
from headbook.artefacts.specialising import Change
from headbook.artefacts.texts import HELD_OUT, Text
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import measure, text_of
from headbook.chapters.sixteen._curves import score
from headbook.chapters.sixteen._specialisation import (
    BLEU,
    CONFIDENCE,
    Score,
    Sharpest,
    most_confident,
    offset_of,
    sharpest,
    threshold,
)
from headbook.chapters.tables import claim_row, mean_claims, model_labels
from headbook.chapters.trained import Parsed, at_profile
from headbook.heads.offset_baseline import first_word_accuracy, offset_baseline
from headbook.heads.positional import Place
from headbook.runs.store import Store
from headbook.statistics import holm, over_seeds
from headbook.trees import RELATION_DIRECTIONS

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
SHARES = (*map(str, Score), CONFIDENCE)
"""Columns that are shares of tokens, or differences of such."""
NAMES = {
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

    With the neighbour and the layer of the head that is most at one, and the relation of the head
    that is farthest over a fixed offset.
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
            **_relation(found[Score.MARGIN], sums, text),
            CONFIDENCE: most_confident(sums).value,
        }  # fmt: skip


def _relation(best: Sharpest, sums: Measured, text: Text) -> dict[str, object]:
    """Of a margin over the best offset: its relation, and the margin of the first word."""
    if not text.trees:
        return {"relation": "", "first_word": math.nan}
    relation, direction = RELATION_DIRECTIONS[best.cell]
    offset = float(offset_baseline(sums["offsets"]).accuracy[best.cell])
    first = first_word_accuracy(text.trees, relation, direction)
    return {"relation": f"{relation}, {direction}", "first_word": first - offset}


def _bleu(model: WithEncoder, update: int, config: Config, store: Store) -> float:
    """NaN for a model that does not translate."""
    if not isinstance(model, TrainedModel):
        return math.nan
    return float(score(model, config.preset.pruning.translated, store, update).bleu[0])


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
    for name in (BLEU, *SHARES):
        of = rows[name].dropna(axis="columns")
        for change in [str(each) for each in Change if each is not Change.NONE and each in of]:
            summary = over_seeds((of[change] - of[str(Change.NONE)]).to_numpy())
            found.append({"change": change, "score": name, "value": summary.mean,
                          "low": summary.low, "high": summary.high})  # fmt: skip
    return pd.DataFrame(found)


def corrected(tables: Tables) -> pd.Series:
    """p of every claim's comparison: a paired t-test over seeds, corrected for all of them (Holm).

    Five of them share the model as it is, so its seeds move five.
    """
    shares = _last(tables["checkpoints"]).pivot(index="seed", columns="change")[Score.NEIGHBOUR]
    differ = [shares[str(more)] - shares[str(less)] for more, less in CLAIMS.values()]
    return pd.Series(holm([ttest_1samp(each, 0).pvalue for each in differ]), [*CLAIMS])


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
    both = pd.concat([untrained.assign(change="untrained", updates=0, tflop=0.0), _last(rows)])
    groups = both.groupby("change", sort=False)
    table = groups[[*RECIPE, "tflop"]].first().map("{:,.0f}".format)
    table["BLEU"] = groups[BLEU].mean().map("{:.1f}".format, na_action="ignore").fillna("–")
    for name in SHARES:
        table[NAMES[name]] = groups[name].mean().map("{:.2f}".format)
    return table.rename(columns={"tokens": "tokens per batch", "tflop": "TFLOP"}).reset_index()


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; gains are in points, with intervals over seeds."""
    rows = gains(tables).set_index(["change", "score"])
    checkpoints = tables["checkpoints"]
    ends = _last(checkpoints).groupby("change")[[str(Score.NEIGHBOUR), str(Score.OWN), BLEU]].mean()
    found: Facts = {"seeds": str(checkpoints["seed"].nunique())}
    for change, key in KEYS.items():
        end = ends.loc[str(change)]
        found[f"{key}_share"] = words.percent(end[Score.NEIGHBOUR])
        found[f"{key}_own_share"] = words.percent(end[Score.OWN])
        found[f"{key}_bleu"] = "none" if math.isnan(end[BLEU]) else f"{end[BLEU]:.1f}"
        for scored in (Score.NEIGHBOUR, Score.OWN, Score.RARE, BLEU):
            if (str(change), scored) in rows.index:
                unit = 1 if scored == BLEU else 100
                numbers = unit * rows.loc[(str(change), scored), ["value", "low", "high"]]
                found[f"{key}_{scored}_gain"] = words.difference(*numbers, digits=1)
    start = checkpoints[(checkpoints["update"] == 0) & (checkpoints["change"] == Change.NONE)]
    both = tables["claims"].set_index("claim").loc["neighbour-needs-updates-over-width"]
    hidden = _last(checkpoints)
    hidden = hidden[hidden["change"] == Change.OBJECTIVE][["syntactic", "first_word"]].mean()
    p = corrected(tables)
    return found | {
        "updates_p": f"{p['neighbour-needs-updates']:.2f}",
        "masking_p": f"{p['neighbour-needs-masking']:.2f}",
        "masking_margin": words.points(hidden["syntactic"]),
        "masking_first_word": words.points(hidden["first_word"]),
        "neighbour_threshold": words.percent(threshold(Score.NEIGHBOUR)),
        "untrained_share": words.percent(start[Score.NEIGHBOUR].mean()),
        "over_width": words.difference(*(100 * both[["value", "low", "high"]]), digits=1),
    }


KEYS = {
    Change.NONE: "base", Change.UPDATES: "updates", Change.BATCHES: "batches",
    Change.PAIRS: "pairs", Change.WIDTH: "width", Change.OBJECTIVE: "masking",
}  # fmt: skip
"""Starts of the names of facts."""
