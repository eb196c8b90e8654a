"""Notebook 31: the X-raying article's models as its notebook ran them, faults included."""

from headbook.artefacts.language import Setting
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.diversity_watched import TRAINED, UNTRAINED, language_models
from headbook.studies.pruned_figures import span
from headbook.studies.results import Tables
from headbook.studies.training_claims import cost_table, setting_tables, sight_table
from headbook.studies.watched_figures import (
    attention_ratio,
    dissimilarity_sentence,
    draw_bands,
    draw_last,
    draw_losses,
    draw_metrics,
)

__all__ = [
    "STUDY", "compute", "cost_table", "draw_bands", "draw_last", "draw_losses", "draw_metrics",
    "read", "sight_table",
]  # fmt: skip

STUDY = "31_as_published"


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every model of the setting, watched as it was trained."""
    store = store or Store.default()
    return setting_tables(language_models(config, Setting.PUBLISHED, store))


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    looks, sight = tables["looks"], tables["sight"]
    losses = tables["losses"].groupby("model")["loss_nats"]
    looking = span(tables["cost"]["share_of_time"], ".0%")
    before, after = (
        sight.loc[sight["version"] == version, "before"] for version in (UNTRAINED, TRAINED)
    )
    return (
        f"Before training a changed token moves what is predicted before it by up to "
        f"{before.max():.2g} in a logit, in {(before > 0).sum()} of {len(before)} models: "
        f"positions see what they are to predict. Trained, it moves it by up to "
        f"{after.max():.1g}, and what is predicted at its own place by up to "
        f"{sight.loc[sight['version'] == TRAINED, 'at'].max():.1g}. The loss falls from "
        f"{span(losses.first(), '.1f')} nats a position to "
        f"{span(losses.last(), '.2f')}, padding counted. {dissimilarity_sentence(looks)} "
        f"Raw attention diversity ends at {span(attention_ratio(looks), '.2g')} times what it "
        f"was before training, by layer. Looking took {looking} of the time."
    )
