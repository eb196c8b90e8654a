"""Notebook 31: the X-raying article's models as its notebook ran them, faults included."""

from headbook.runs.store import Store
from headbook.stages.language import Setting
from headbook.studies.config import Config
from headbook.studies.diversity_watched import language_models
from headbook.studies.results import Tables
from headbook.studies.training_claims import cost_table, setting_tables, sight_table
from headbook.studies.watched_figures import (
    attention_ratio,
    dissimilarity_sentence,
    draw_bands,
    draw_last,
    draw_losses,
    draw_metrics,
    spelled,
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
    looking = spelled(tables["cost"]["share_of_time"], ".0%")
    return (
        f"In {(sight['before'] > 0).sum()} of {len(sight)} models a changed token moves what is "
        f"predicted before it, by up to {sight['before'].max():.2g} in a logit: they see what they "
        f"are to predict. Their loss falls from {spelled(losses.first(), '.1f')} nats a position "
        f"to {spelled(losses.last(), '.2f')}, padding counted. {dissimilarity_sentence(looks)} "
        f"Raw attention diversity ends at {spelled(attention_ratio(looks), '.2g')} times what it "
        f"was before training, by layer. Looking took {looking} of the time."
    )
