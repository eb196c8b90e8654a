"""Notebook 32: the X-raying article's model as its text describes it: a causal language model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from headbook.artefacts.language import LanguageModel, Setting
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.diversity_watched import labels, language_models, peak_rate
from headbook.studies.measurements import claim_row
from headbook.studies.pruned_figures import span
from headbook.studies.results import Tables
from headbook.studies.training_claims import (
    VARIANCE_RISES,
    cost_table,
    setting_tables,
    sight_table,
)
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

STUDY = "32_as_described"
STUCK = 0.95
"""Of the cross-entropy of token frequencies: a model above it has learnt little else."""
LEARNT = "text-is-learnt-described"


def compute(config: Config, store: Store | None = None) -> Tables:
    """Every model of the setting, watched as it was trained, and how good a model it became."""
    store = store or Store.default()
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
    """What a model's text and its pieces come of."""
    run = model.run
    return run.corpus, run.lines, run.vocabulary


def _quality(model: LanguageModel, frequencies: float) -> dict[str, object]:
    """Validation and test, beside what the training text's token frequencies give."""
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
    """Cross-entropy a token of the test lines under the training lines' frequencies, one added."""
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


def quality_table(tables: Tables) -> pd.DataFrame:
    """Perplexity of every model, whose name tells its text, and the nats of token frequencies."""
    return tables["quality"].drop(columns="corpus")


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    looks, quality = tables["looks"], tables["quality"]
    looking = span(tables["cost"]["share_of_time"], ".0%")
    return (
        f"A changed token moves no logit before it by more than "
        f"{tables['sight']['before'].max():.2g}. After "
        f"{span(quality['tokens'] / 1e6, '.1f')} million tokens perplexity on the test text is "
        f"{_by_text_and_rate(quality)}. {_learnt_or_not(tables['claims'])} "
        f"{dissimilarity_sentence(looks)} Raw attention "
        f"diversity ends at {span(attention_ratio(looks), '.2g')} times what it was before "
        f"training, by layer. Looking took {looking} of the time."
    )


def _by_text_and_rate(quality: pd.DataFrame) -> str:
    """Perplexity a piece and a word at each rate, and that of token frequencies, text by text."""
    texts = []
    for text, rows in quality.groupby("corpus", sort=False):
        rates = [
            f"{span(here['test_perplexity'], '.0f')} a piece and "
            f"{span(here['test_perplexity_word'], '.0f')} a word at a rate of {rate:.1g}"
            for rate, here in rows.groupby("peak_rate", sort=False)
        ]
        alone = np.exp(rows["frequency_nats"].iloc[0])
        texts.append(f"{', '.join(rates)} ({text}; token frequencies alone: {alone:.0f} a piece)")
    return "; ".join(texts)


def _learnt_or_not(claims: pd.DataFrame) -> str:
    """What the article says of all layers, in models of the language and in those of none."""
    shares = claims.pivot(index="model", columns="claim", values="value")
    falls, rises = (f"{claim}-described" for claim in ("xray-orthogonality-falls", VARIANCE_RISES))
    stuck = shares[LEARNT] > STUCK
    kinds = {"have learnt more than token frequencies": shares[~stuck],
             "have not learnt more than token frequencies": shares[stuck]}  # fmt: skip
    return " ".join(
        f"Of the {len(rows)} that {kind}, query orthogonality falls in {span(rows[falls], '.0%')} "
        f"of the layers, and the variance of output dissimilarity rises in "
        f"{span(rows[rises], '.0%')}."
        for kind, rows in kinds.items()
        if len(rows)
    )
