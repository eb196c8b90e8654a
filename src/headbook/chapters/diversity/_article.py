"""Shared by pages 31 and 32: the X-raying article's numbers, and metrics before and after."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.diversity._training_claims import ends
from headbook.chapters.diversity._watched import column
from headbook.chapters.trained import Trained
from headbook.claims.ledger import load as ledger
from headbook.heads.four_metrics import DISSIMILARITY, FREE, ORTHOGONALITY, RAW

ARTICLE_FIRST = np.array([17.37, 12.30, 12.62, 12.22, 12.33, 12.48])
ARTICLE_LAST = np.array([20.89, 15.82, 15.31, 16.02, 16.71, 18.31])
"""Logarithm of raw query orthogonality by layer, of the first batch and of the mean of the last
twenty; 8 heads, dropout 0.1, recomputed from the table the article released."""
ARTICLE_RISE = ARTICLE_LAST - ARTICLE_FIRST
ARTICLE_UNLIKE = (0.043, 0.037, 0.037, -0.011, -0.013, -0.014)
"""Output dissimilarity of the same model over the last twenty batches."""
RISE, DISSIMILAR, VARIANCE, STABLE, FIRST = (
    "xray-orthogonality-falls", "xray-dissimilarity-rises", "xray-variance-rises",
    "xray-stable-after-ten", "xray-first-layer-dwarfs",
)  # fmt: skip
"""Claims of both pages, without the setting at their end."""
QUERIES, ALIGNMENT = column(ORTHOGONALITY, RAW), column(ORTHOGONALITY, FREE)
UNLIKE = column(DISSIMILARITY, RAW)
ENDS = ["min", "max"]


Parameters = Trained


def before_and_after(looks: pd.DataFrame, name: str) -> pd.DataFrame:
    """A column before the first update and over the last fifth of the looks: model, layer, before,
    after."""
    parts = []
    for model, own in looks.groupby("model", sort=False):
        before, after = ends(own, name)
        rows = pd.DataFrame({"before": before, "after": after}).reset_index(names="layer")
        parts.append(rows.assign(model=model))
    return pd.concat(parts, ignore_index=True)


def rises(looks: pd.DataFrame) -> pd.DataFrame:
    """By how much the logarithm of raw query orthogonality rises: model, layer, rise."""
    found = before_and_after(looks, QUERIES)
    return found.assign(rise=np.log(found["after"] / found["before"]))


def spread(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Mean, smallest and largest rise per value of `by`: value, low, high."""
    found = rows.groupby(by, sort=False)["rise"].agg(value="mean", low="min", high="max")
    return found.reset_index()


def through_training(looks: pd.DataFrame, model: str, name: str) -> pd.DataFrame:
    """A column of one model's looks, a line per layer: update, value, line; a negative update is
    none."""
    own = looks[looks["model"] == model]
    return pd.DataFrame({"update": own["update"], "value": own[name],
                         "line": "layer " + own["layer"].astype(str)})  # fmt: skip


def gap(rows: pd.DataFrame, name: str) -> pd.Series:
    """The first layer's `name` as a logarithm over the mean of the other layers', per model."""
    wide = np.log(rows.pivot(index="model", columns="layer", values=name))
    return wide.iloc[:, 0] - wide.iloc[:, 1:].mean(axis=1)


def model_rows(tables: Tables, setting: str) -> pd.DataFrame:
    """One row per model, as text: last loss, first layer over the others before and after (as the
    claim has it), shares of layers in which raw numbers rise, the largest logit that a changed
    token moves."""
    rows = before_and_after(tables["looks"], QUERIES)
    values = tables["claims"].pivot(index="model", columns="claim", values="value")
    sight = tables["sight"].query("version == 'trained'").set_index("model")
    losses = tables["losses"].groupby("model")["loss_nats"].apply(lambda own: own.tail(3).mean())
    frame = pd.DataFrame({
        "loss, nats": losses.map("{:.2f}".format),
        "first layer, before": gap(rows, "before").map(times),
        "first layer, after": values[f"{FIRST}-{setting}"].map(times),
        "orthogonality rises in": values[f"{RISE}-{setting}"].map(words.percent),
        "dissimilarity rises in": rising(tables["looks"], UNLIKE).map(words.percent),
        "largest logit moved": sight[["before", "at", "after"]].max(axis=1).map("{:.1g}".format),
    })  # fmt: skip
    return frame.loc[list(dict.fromkeys(rows["model"]))].reset_index(names="model")


def rising(looks: pd.DataFrame, name: str) -> pd.Series:
    """Share of the layers in which a column is larger at the end than before training, by model."""
    rows = before_and_after(looks, name)
    return (rows["after"] > rows["before"]).groupby(rows["model"]).mean()


def paper_facts(setting: str) -> Facts:
    """The article's own numbers, as the ledger has them."""
    known = ledger()
    papers = {name: known.claim(f"{name}-{setting}").paper[0].values
              for name in (RISE, DISSIMILAR, VARIANCE, STABLE, FIRST)}  # fmt: skip
    return {
        "paper_rise": words.percent(papers[RISE][0]),
        "paper_dissimilar": words.percent(papers[DISSIMILAR][0]),
        "paper_variance": words.percent(papers[VARIANCE][0]),
        "paper_stable": " to ".join(words.percent(each) for each in papers[STABLE]),
        "paper_first": times(papers[FIRST][0]),
    }


def cell_facts(claims: pd.DataFrame, setting: str, prefix: str = "") -> Facts:
    """Shares of cells of layer and model in which a number rises, and what is done at batch ten."""
    values = claims.pivot(index="model", columns="claim", values="value")
    shares: Mapping[str, str] = {"rise": RISE, "dissimilar": DISSIMILAR, "variance": VARIANCE}
    found: Facts = {
        f"{prefix}{fact}": words.percent(float(values[f"{claim}-{setting}"].mean()))
        for fact, claim in shares.items()
    }
    done = values[f"{STABLE}-{setting}"]
    found[f"{prefix}stable"] = range_of([_percent(float(each)) for each in done.agg(ENDS)])
    return found


def loss_facts(tables: Tables) -> Facts:
    """Nats per token of the first batch and of the last three looks, lowest and highest model."""
    losses = tables["losses"].groupby("model")["loss_nats"]
    first, last = losses.first(), losses.apply(lambda values: values.tail(3).mean())
    return {name: range_of([f"{each:.1f}" for each in own.agg(ENDS)])
            for name, own in (("loss_first", first), ("loss_last", last))}  # fmt: skip


def shape_facts(looks: pd.DataFrame, prefix: str = "") -> Facts:
    """Scale-free alignment and own-output dissimilarity after training, above the first layer."""
    found: Facts = {}
    for fact, metric in (("aligned", ORTHOGONALITY), ("outputs", DISSIMILARITY)):
        rows = before_and_after(looks, column(metric, FREE)).query("layer > 1")
        for moment in ("before", "after"):
            value = rows[moment].mean()
            text = f"{value:.2f}" if fact == "aligned" else words.signed(value)
            found[f"{prefix}{fact}_{moment}"] = text
    return found


def _percent(share: float) -> str:
    return words.percent(share).replace("-", "−")


def times(gap: float) -> str:
    """A gap of logarithms as a factor: `86`, `2.1`."""
    factor = np.exp(gap)
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"


def range_of(texts: list[str]) -> str:
    """`63 % to 82 %`, or one text where both ends read alike."""
    return " to ".join(dict.fromkeys(texts))
