"""Page 37: whole heads left out at random in training (Zhou et al. 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from headbook.artefacts.language import DroppingRun, LanguageModel, language_model
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _removed_heads as removed_heads
from headbook.chapters.diversity._removed_heads import HALF, without_heads
from headbook.chapters.diversity._seeds import differences, mean_table, of_each_seed, over_seed
from headbook.chapters.diversity._training_claims import at_the_end
from headbook.chapters.diversity._watched import labels
from headbook.chapters.tables import claim_row, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.heads.four_metrics import DISSIMILARITY
from headbook.runs.store import Ingredients, Stage, Store

NUMBER = 37
TITLE = "Does dropping heads in training help?"
WORK = "zhou2020"
KEYS = ("variant", "seed")

SEGMENTS = 32
"""Of validation text, on which heads are closed."""
WITHOUT_HEADS = Stage("without-heads", version=1)
NONE, CONSTANT, V = "no DropHead", "one rate", "V"


Parameters = Trained


@dataclass(frozen=True)
class RemovedRun:
    """Shares of heads to remove, number of orders, amount of validation text."""

    levels: tuple[float, ...]
    orders: int
    segments: int = SEGMENTS


def compute(parameters: Parameters, store: Store) -> Tables:
    """Nothing at `published`; else quality, diversity, loss as heads are closed, claims."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """The tables of a profile, over all of its seeds; models that the store lacks are trained."""
    return of_each_seed(config.of_varied_seeds(), lambda each: _of_seed(each, store))


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
    """Name of the model beside the others of the page."""
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
    """One row per order and share of heads, the same orders for every model; kept in the store."""

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
    """Rise of a variant's loss without that share of heads, in nats; of one seed."""
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


def effects(tables: Tables) -> pd.DataFrame:
    """Every DropHead model minus the model without, in nats per token, mean over seeds.

    Two rows per variant: `measure` is the loss on test text, or the rise of the loss on validation
    text when half of all heads are closed.
    """
    kinds = {
        "test loss": differences(tables["quality"], NONE, "test_nats"),
        "rise without half the heads": differences(rises(tables["removed"]), NONE, "rise"),
    }
    found = [over_seed(rows, ["variant"], "value").assign(measure=name)
             for name, rows in kinds.items()]  # fmt: skip
    return pd.concat(found, ignore_index=True)


def rises(removed: pd.DataFrame) -> pd.DataFrame:
    """One row per variant and seed: how much the loss rises when half of all heads are closed."""
    groups = removed.groupby(["variant", "seed"], sort=False)[["order", "share", "valid_nats"]]
    return groups.apply(removed_heads.rise, HALF).rename("rise").reset_index()


def unlike(tables: Tables) -> pd.DataFrame:
    """Change of output dissimilarity against no DropHead, mean over layers and seeds."""
    rows = tables["diversity"].query("metric == @DISSIMILARITY")
    means = rows.groupby(["variant", "seed"], sort=False)["value"].mean().reset_index()
    return over_seed(differences(means, NONE, "value"), ["variant"], "value")


def levels(tables: Tables) -> pd.Series:
    """Output dissimilarity by variant, mean over layers and seeds."""
    rows = tables["diversity"].query("metric == @DISSIMILARITY")
    return rows.groupby("variant", sort=False)["value"].mean()


def by_layer(tables: Tables) -> pd.DataFrame:
    """Output dissimilarity by layer at the end of training, mean over seeds."""
    rows = tables["diversity"].query("metric == @DISSIMILARITY")
    return rows.groupby(["variant", "layer"], sort=False)["value"].mean().reset_index()


def closing(tables: Tables) -> pd.DataFrame:
    """Loss against the share of heads closed: mean, least and largest over orders and seeds."""
    groups = tables["removed"].groupby(["variant", "share"], sort=False)["valid_nats"]
    return groups.agg(value="mean", low="min", high="max").reset_index()


def quality(tables: Tables) -> pd.DataFrame:
    """Loss in training, on validation and on test text, one row per model."""
    rows = mean_table(tables["quality"], ["variant"], "test_nats")
    return rows.round(3).rename(columns=lambda name: name.replace("_", " "))


def facts(tables: Tables) -> Facts:
    """The numbers of the prose; differences from no DropHead, intervals over seeds."""
    quality = tables["quality"]
    whole = quality[quality["variant"] == NONE]
    rise = rises(tables["removed"]).query("variant == @NONE")["rise"]
    found: Facts = {
        "seeds": str(quality["seed"].nunique()),
        "base_perplexity": f"{whole['test_perplexity'].mean():.0f}",
        "base_rise": f"{rise.mean():.3f}",
    }
    for measure, rows in effects(tables).groupby("measure"):
        found |= _said("loss" if measure == "test loss" else "rise", rows)
    found |= _said("unlike", unlike(tables))
    for variant, level in levels(tables).items():
        found[f"level_{_key(str(variant))}"] = words.signed(level, 3)
    for rate in dict.fromkeys(each.split(", ")[1] for each in quality["variant"].unique()[1:]):
        flat, v = f"{CONSTANT}, {rate}", f"{V}, {rate}"
        rows = differences(quality[quality["variant"].isin([flat, v])], flat, "test_nats")
        found |= _said("v_beats", over_seed(rows, ["variant"], "value"))
    return found


def _said(measure: str, rows: pd.DataFrame) -> Facts:
    """`loss_v_02` and `loss_v_02_between` of the model on a V from a rate of 0.2."""
    found: Facts = {}
    for row in rows.to_dict("records"):
        key = f"{measure}_{_key(row['variant'])}"
        found[key] = words.signed(row["value"], 3)
        found[f"{key}_between"] = words.between(row["low"], row["high"], 3)
    return found


def _key(variant: str) -> str:
    """A part of the names of facts: none, v_02, one_01."""
    if variant == NONE:
        return "none"
    kind, rate = variant.split(", ")
    return f"{'v' if kind == V else 'one'}_{rate.replace('.', '')}"
