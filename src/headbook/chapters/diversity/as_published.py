"""Page 31: the X-raying article's models as its notebook ran them, faults included."""

import numpy as np
import pandas as pd

from headbook.artefacts.language import Setting
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _article as article
from headbook.chapters.diversity._article import Parameters
from headbook.chapters.diversity._training_claims import setting_tables
from headbook.chapters.diversity._watched import TRAINED, UNTRAINED, column, language_models
from headbook.chapters.trained import at_profile
from headbook.heads.four_metrics import DISSIMILARITY, RAW
from headbook.runs.store import Store

NUMBER = 31
TITLE = "Do the article's findings return when its notebook is run as it was?"
WORK = "asad2024"
KEYS = ("model",)
SETTING = "published"
FIRST = f"{article.FIRST}-{SETTING}"


def compute(parameters: Parameters, store: Store) -> Tables:
    """Every model of the setting, observed as it is trained; none at `published`."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Looks, losses, effects of a changed token, cost of looking, claims."""
    return setting_tables(language_models(config, Setting.PUBLISHED, store))


def by_layer(tables: Tables) -> pd.DataFrame:
    """By how much the logarithm of raw query orthogonality rises, mean and range over the models,
    beside the article: layer, value, low, high, paper."""
    rows = article.spread(article.rises(tables["looks"]), "layer")
    paper = dict(enumerate(article.ARTICLE_RISE, start=1))
    return rows.assign(paper=rows["layer"].map(paper), layer="layer " + rows["layer"].astype(str))


def aligned(tables: Tables) -> pd.DataFrame:
    """Scale-free query alignment before and after training, mean over the models: layer, before,
    after."""
    rows = article.before_and_after(tables["looks"], article.ALIGNMENT)
    found = rows.groupby("layer")[["before", "after"]].mean().reset_index()
    return found.assign(layer="layer " + found["layer"].astype(str))


def beside(tables: Tables) -> pd.DataFrame:
    """The article's own configuration beside its released table, one row per layer."""
    looks = tables["looks"]
    own = looks[looks["model"] == looks["model"].iloc[0]]
    queries, unlike = (
        article.before_and_after(own, name)
        for name in (article.QUERIES, column(DISSIMILARITY, RAW))
    )
    return pd.DataFrame({
        "layer": queries["layer"],
        "first batch: article": article.ARTICLE_FIRST,
        "first batch: here": np.log(queries["before"]),
        "last twenty: article": article.ARTICLE_LAST,
        "last fifth: here": np.log(queries["after"]),
        "dissimilarity: article": article.ARTICLE_UNLIKE,
        "dissimilarity: here": unlike["after"],
    })  # fmt: skip


def models(tables: Tables) -> pd.DataFrame:
    """One row per model: loss, first layer over the others, shares of layers, changed logits."""
    rows = article.model_rows(tables, SETTING)
    return rows.assign(model=rows["model"].map(words.model))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose."""
    looks, sight, claims = tables["looks"], tables["sight"], tables["claims"]
    held_out = tables["held_out"]
    before = article.gap(article.before_and_after(looks, article.QUERIES), "before")
    after = claims[claims["claim"] == FIRST].set_index("model")["value"]
    own = looks["model"].iloc[0]
    unseen = sight.loc[sight["version"] == TRAINED, ["before", "at", "after"]].to_numpy().max()
    seen = sight.loc[sight["version"] == UNTRAINED, "before"]
    return {
        **article.paper_facts(SETTING),
        **article.cell_facts(claims, SETTING),
        **article.loss_facts(tables),
        **article.shape_facts(looks),
        **article.cell_facts(held_out, SETTING, "held_"),
        "held_first_after": article.times(
            held_out.set_index(["model", "claim"]).loc[(own, FIRST), "value"]
        ),
        "models": str(looks["model"].nunique()),
        "first_before": article.times(before[own]),
        "first_after": article.times(after[own]),
        "unseen": f"{unseen:.2g}",
        "seen": f"{seen.max():.1f}",
    }
