"""Page 32: the X-raying article's model as its text describes it: a causal language model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from headbook.artefacts.language import LanguageModel, Setting
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.diversity import _article as article
from headbook.chapters.diversity._article import Parameters
from headbook.chapters.diversity._training_claims import setting_tables
from headbook.chapters.diversity._watched import labels, language_models, peak_rate
from headbook.chapters.tables import claim_row
from headbook.chapters.trained import at_profile
from headbook.runs.store import Store

NUMBER = 32
TITLE = "Do the article's findings hold in the model it describes?"
WORK = "asad2024"
KEYS = ("model",)
SETTING = "described"
FIRST = f"{article.FIRST}-{SETTING}"
STUCK = 0.95
"""Of the cross-entropy of token frequencies: a model above it has learnt little else."""
LEARNT = "text-is-learnt-described"
LEARNING, NOT_LEARNING = "learns its text", "learns frequencies only"


def compute(parameters: Parameters, store: Store) -> Tables:
    """Every model of the setting, observed as it is trained; none at `published`."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Looks, losses, effects of a changed token, cost of looking, quality, claims."""
    models = language_models(config, Setting.DESCRIBED, store)
    tables = setting_tables(models)
    # Seeds and rates share a text and its pieces, and counting a large text takes a while.
    of_texts = {_text(each): each for each in models}
    frequencies = {text: frequency_nats(each) for text, each in of_texts.items()}
    quality = pd.DataFrame([_quality(each, frequencies[_text(each)]) for each in models])
    learnt = [_learnt(each, row) for each, row in zip(models, quality.iloc, strict=True)]
    claims = pd.concat([tables["claims"], pd.DataFrame(learnt)], ignore_index=True)
    return tables | {"quality": quality, "claims": claims}


def _text(model: LanguageModel) -> tuple[object, ...]:
    """Text on which a model and its pieces are trained."""
    run = model.run
    return run.corpus, run.lines, run.vocabulary


def _quality(model: LanguageModel, frequencies: float) -> dict[str, object]:
    """Validation and test, beside the cross-entropy of the training text's token frequencies."""
    curve, scores = model.curve, model.scores
    named = labels(model)
    return {
        "model": named["model"], "corpus": named["corpus"], "peak_rate": peak_rate(model),
        "updates": model.run.training.updates,
        "tokens": int(curve["target_tokens"].iloc[-1]),
        "valid_nats": curve["valid_loss_nats"].min(), "test_nats": scores["test_nats"],
        "test_perplexity": scores["test_perplexity"],
        "test_perplexity_word": scores["test_perplexity_word"],
        "frequency_nats": frequencies,
    }  # fmt: skip


def frequency_nats(model: LanguageModel) -> float:
    """Cross-entropy per test token under the training lines' token frequencies, one added."""
    train, test = (
        _counts(model.subwords.encode(lines), len(model.subwords))
        for lines in (model.text.train, model.text.test)
    )
    smooth = train + 1
    return float(-(test / test.sum() * np.log(smooth / smooth.sum())).sum())


def _counts(encoded: Sequence[Sequence[int]], vocabulary: int) -> np.ndarray:
    flat = np.fromiter((identity for line in encoded for identity in line), dtype=np.int64)
    return np.bincount(flat, minlength=vocabulary)


def _learnt(model: LanguageModel, quality: pd.Series) -> dict[str, object]:
    share = quality["test_nats"] / quality["frequency_nats"]
    return claim_row(LEARNT, labels(model), float(share))


def shares(tables: Tables) -> pd.Series:
    """Test loss over the cross-entropy of token frequencies, by model; 1 is a model of these."""
    quality = tables["quality"].set_index("model")
    return quality["test_nats"] / quality["frequency_nats"]


def by_model(tables: Tables) -> pd.DataFrame:
    """By how much the logarithm of raw query orthogonality rises, mean and range over the layers of
    each model, and the article's mean: name, group, value, low, high, paper."""
    rows = article.spread(article.rises(tables["looks"]), "model")
    share = rows["model"].map(shares(tables))
    rows["group"] = np.where(share > STUCK, NOT_LEARNING, LEARNING)
    rows["paper"] = np.nan
    rows.loc[0, "paper"] = np.mean(article.ARTICLE_RISE)
    short = rows["model"].str.replace(r" 8 heads, dropout 0\.1,", ",", regex=True)
    rows["name"] = short.str.replace(r" s(\d+)$", r", seed \1", regex=True)
    return rows


def models(tables: Tables) -> pd.DataFrame:
    """One row per model: perplexity, loss over that of frequencies, and the metrics as page 31."""
    quality = tables["quality"].set_index("model")
    rows = article.model_rows(tables, SETTING).drop(columns=["loss, nats"]).set_index("model")
    rows.insert(0, "perplexity", quality["test_perplexity"].map("{:,.0f}".format))
    rows.insert(1, "loss over frequencies", shares(tables).map("{:.2f}".format))
    return rows.rename(index=words.model).reset_index()


def parts(tables: Tables) -> dict[str, list[str]]:
    """Names of the models that learn their text, and of those that do not."""
    stuck = shares(tables) > STUCK
    return {LEARNING: list(stuck.index[~stuck]), NOT_LEARNING: list(stuck.index[stuck])}


def facts(tables: Tables) -> Facts:
    """The numbers of the prose, of the models that learn their text and of those that do not."""
    named, quality = parts(tables), tables["quality"].set_index("model")
    found: Facts = {**article.paper_facts(SETTING), "models": str(len(quality)),
                    "updates": words.count(int(quality["updates"].max()))}  # fmt: skip
    for prefix, names in (("learnt_", named[LEARNING]), ("stuck_", named[NOT_LEARNING])):
        found[f"{prefix}models"] = str(len(names))
        if not names:
            continue
        claims = tables["claims"][tables["claims"]["model"].isin(names)]
        looks = tables["looks"][tables["looks"]["model"].isin(names)]
        before = article.gap(article.before_and_after(looks, article.QUERIES), "before")
        after = claims[claims["claim"] == FIRST]["value"]
        perplexity = quality.loc[names, "test_perplexity"]
        found |= article.cell_facts(claims, SETTING, prefix)
        found |= article.shape_facts(looks, prefix)
        for fact, gaps in (("first", after), ("first_before", before)):
            found[f"{prefix}{fact}"] = article.range_of(
                [article.times(each) for each in gaps.agg(ENDS)]
            )
        found[f"{prefix}perplexity"] = article.range_of(
            [f"{each:.0f}" for each in perplexity.agg(ENDS)]
        )
        found[f"{prefix}share"] = article.range_of(
            [f"{each:.2f}" for each in shares(tables)[names].agg(ENDS)]
        )
    return found


ENDS = article.ENDS
