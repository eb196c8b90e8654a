"""Notebook 37: what DropHead does to a language model, its heads, and what it bears."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from headbook.artefacts.language import DroppingRun, LanguageModel, language_model
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.runs.store import Ingredients, Stage, Store
from headbook.studies import removed_heads
from headbook.studies.config import Config
from headbook.studies.diversity_watched import labels
from headbook.studies.measurements import claim_row, stacked
from headbook.studies.over_seeds import mean_table, of_each_seed, said
from headbook.studies.removed_heads import HALF, without_heads
from headbook.studies.results import Tables
from headbook.studies.training_claims import at_the_end
from headbook.studies.watched_figures import draw_variants

__all__ = ["STUDY", "compute", "draw_removed", "draw_variants", "quality_table", "read"]

STUDY = "37_dropped_heads"
SEGMENTS = 32
"""Of validation text, on which models lose their heads."""
WITHOUT_HEADS = Stage("without-heads", version=1)
NONE, CONSTANT, V = "no DropHead", "one rate", "V"


@dataclass(frozen=True)
class RemovedRun:
    """Which shares of heads are taken away, in how many orders, on how much validation text."""

    levels: tuple[float, ...]
    orders: int
    segments: int = SEGMENTS


def compute(config: Config, store: Store | None = None) -> Tables:
    """Quality, diversity, and the loss as heads are taken away at random, of every seed."""
    kept = store or Store.default()
    return of_each_seed(config.of_varied_seeds(), lambda each: _of_seed(each, kept))


def _of_seed(config: Config, store: Store) -> Tables:
    base = config.varied_model()
    models = {name_of(run): language_model(run, store) for run in (base, *config.dropping_models())}
    pruning = config.preset.pruning
    quality = pd.DataFrame([_quality(name, model) for name, model in models.items()])
    asked = RemovedRun(pruning.levels, pruning.orders)
    removed = stacked(_removed(name, model, asked, store) for name, model in models.items())
    diversity = stacked(at_the_end(model).assign(variant=name) for name, model in models.items())
    return {
        "quality": quality,
        "removed": removed,
        "diversity": diversity,
        "claims": pd.DataFrame(list(_claims(models, quality, removed, diversity))),
    }


def name_of(run: object) -> str:
    """What the model is called beside the others of the page."""
    if not isinstance(run, DroppingRun):
        return NONE
    kind = CONSTANT if run.drop_head.turn is None else V
    return f"{kind}, {run.drop_head.start:g}"


def _quality(name: str, model: LanguageModel) -> dict[str, object]:
    scores = model.scores
    return {
        "variant": name, "train_nats": model.curve["train_loss_nats"].iloc[-1],
        "valid_nats": model.curve["valid_loss_nats"].min(), "test_nats": scores["test_nats"],
        "test_perplexity": scores["test_perplexity"],
    }  # fmt: skip


def _removed(name: str, model: LanguageModel, run: RemovedRun, store: Store) -> pd.DataFrame:
    """One row an order and share of heads, the same orders for every model; kept in the store."""

    def take_away(folder: Path) -> None:
        whole, segments = model.model(), model.segments(model.text.valid)[: run.segments]
        rows = without_heads(
            whole, lambda: model.nats(whole, segments), run.levels, run.orders, name
        )
        pd.DataFrame(rows).to_csv(folder / "removed.csv", index=False)

    asked = Ingredients(WITHOUT_HEADS, run, {"model": model.asked.key}, model.asked.policy)
    rows = pd.read_csv(store.get(asked, take_away) / "removed.csv")
    rows.insert(0, "variant", name)
    return rows


def rise(removed: pd.DataFrame, variant: str, share: float) -> float:
    """How much a variant's loss rises when that share of heads is gone, in nats; of one seed."""
    return removed_heads.rise(removed[removed["variant"] == variant], share)


def _claims(
    models: dict[str, LanguageModel],
    quality: pd.DataFrame,
    removed: pd.DataFrame,
    diversity: pd.DataFrame,
) -> Iterator[dict[str, object]]:
    nats = dict(zip(quality["variant"], quality["test_nats"], strict=True))
    unlike = diversity[diversity["metric"] == DISSIMILARITY].groupby("variant")["value"].mean()
    for name, model in models.items():
        if name == NONE:
            continue
        named = labels(model)
        named["model"] = f"{named['corpus']} {name}"
        before = rise(removed, NONE, HALF)
        yield claim_row("drop-head-bears-removal", named, rise(removed, name, HALF) - before,
                        baseline=before)  # fmt: skip
        yield claim_row("drop-head-redundant", named, unlike[name] - unlike[NONE])
        if name.startswith(V):
            yield claim_row("zhou-drop-head-helps", named, nats[name] - nats[NONE])
            yield claim_row("zhou-v-beats-one-rate", named, nats[name] - nats[_flat(name)])


def _flat(name: str) -> str:
    """The model at the one rate that a V starts from."""
    return name.replace(V, CONSTANT, 1)


def draw_removed(tables: Tables) -> Figure:
    """Loss against the share of heads taken away: mean and range over random orders and seeds."""
    rows = tables["removed"]
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axis = figure.subplots()
    for number, (name, here) in enumerate(rows.groupby("variant", sort=False)):
        by_share = here.groupby("share")["valid_nats"]
        mean, low, high = by_share.mean(), by_share.min(), by_share.max()
        axis.plot(mean.index, mean, marker="os^D"[number % 4], color=f"C{number}", label=name)
        axis.fill_between(mean.index, low, high, color=f"C{number}", alpha=0.15, lw=0)
    axis.set(xlabel="heads taken away", ylabel="validation loss, nats a token")
    axis.xaxis.set_major_formatter(PercentFormatter(1.0))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


def quality_table(tables: Tables) -> pd.DataFrame:
    """Loss in training, on validation and on test text."""
    return mean_table(tables["quality"], ["variant"], "test_nats")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    nats = tables["quality"].pivot(index="seed", columns="variant", values="test_nats")
    rises = _by_seed(tables["removed"])
    sentences = [
        f"{name}: test loss {said(nats[name] - nats[NONE], '+.3f')}; without half of its heads "
        f"the loss rises by {said(rises[name], '.3f')}."
        for name in tables["quality"]["variant"].unique()
        if name != NONE
    ]
    sentences.append(f"Without DropHead it rises by {said(rises[NONE], '.3f')}.")
    rows = tables["diversity"]
    unlike = rows[rows["metric"] == DISSIMILARITY].groupby("variant", sort=False)["value"].mean()
    means = ", ".join(f"{value:+.3f} ({name})" for name, value in unlike.items())
    return " ".join([*sentences, f"Output dissimilarity, mean over layers: {means}."])


def _by_seed(removed: pd.DataFrame) -> pd.DataFrame:
    """One row a seed, a column a variant: the rise of the loss without half of the heads."""
    return pd.DataFrame(
        {
            seed: {name: rise(rows, name, HALF) for name in rows["variant"].unique()}
            for seed, rows in removed.groupby("seed")
        }
    ).T
