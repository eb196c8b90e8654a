"""Notebook 10: what the models were trained on, how training went, and what they translate."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headbook.artefacts.model import TrainedModel
from headbook.claims.verdict import COLUMNS
from headbook.corpora.readers import Pairs
from headbook.corpora.registry import CorpusKind, registry
from headbook.runs.store import Store
from headbook.studies.config import Config
from headbook.studies.measurements import model_labels, models, stacked
from headbook.studies.results import Tables
from headbook.training.scoring import Casing

STUDY = "10_corpora_and_models"
DIGEST = 12
"""Hexadecimal digits of a corpus' digest that are shown."""
LAST_ROWS = 5
"""Validations at the end of training over which the slope is taken."""
EXAMPLES = 5
EXAMPLE_COLUMNS = ("model", "test", "source", "reference", "translation")
ACROSS = 3
"""Panels side by side."""
CASING_COLOURS = {Casing.CASED: "#8e6bb3", Casing.LOWER: "#e08e45"}
SPLIT_COLUMNS = ("corpus", "split", "pairs", "source_words", "target_words", "source_pieces",
                 "target_pieces")  # fmt: skip


def compute(config: Config, store: Store | None = None) -> Tables:
    """Corpora and their splits, models, training curves, BLEU, and a few translations."""
    found = models(config, store or Store.default())
    corpora = list({model.corpus.name: model for model in reversed(found)}.values())[::-1]
    return {
        "corpora": pd.DataFrame([_corpus(model) for model in corpora]),
        "splits": stacked(_splits(model) for model in corpora),
        "models": pd.DataFrame([_model(model) for model in found]),
        "curves": stacked(model.curve.assign(**model_labels(model)) for model in found),
        "bleu": stacked(model.bleu.assign(**model_labels(model)) for model in found),
        "examples": stacked(_examples(model) for model in found),
        "claims": pd.DataFrame(columns=COLUMNS),
    }


def _corpus(model: TrainedModel) -> dict[str, object]:
    """One row a corpus, as the first of its models read it."""
    corpus = model.corpus
    known = registry().get(corpus.name)
    return {
        "corpus": corpus.name,
        "title": known.title if known else "a folder of the user's",
        "licence": known.licence if known else "unknown",
        "target": corpus.target_language,
        "source_word_types": _different(corpus.train.source),
        "target_word_types": _different(corpus.train.target),
        "source_piece_types": len(model.source),
        "target_piece_types": len(model.target),
        "dropped": "; ".join(corpus.report.lines()) or "nothing",
        "digest": corpus.digest[:DIGEST],
    }


def _different(sentences: Sequence[str]) -> int:
    """Different words, split at white space as they stand."""
    return len({word for sentence in sentences for word in sentence.split()})


def _splits(model: TrainedModel) -> pd.DataFrame:
    """One row a split: pairs, and mean sentence lengths in words and in subwords without EOS."""
    corpus = model.corpus
    splits = {"train": corpus.train, "valid": corpus.valid, **corpus.tests}
    rows = [
        (corpus.name, name, len(pairs), *_lengths(model, pairs)) for name, pairs in splits.items()
    ]
    return pd.DataFrame(rows, columns=SPLIT_COLUMNS)


def _lengths(model: TrainedModel, pairs: Pairs) -> list[float]:
    sides = ((pairs.source, model.source), (pairs.target, model.target))
    words = [_mean(len(line.split()) for line in lines) for lines, _ in sides]
    pieces = [_mean(len(row) - 1 for row in coder.encode(lines)) for lines, coder in sides]
    return [*words, *pieces]


def _mean(lengths: Iterable[int]) -> float:
    known = list(lengths)
    return fmean(known) if known else float("nan")


def _model(model: TrainedModel) -> dict[str, object]:
    """One row a model: its shape, what training took, and whether it had come to an end.

    `slope` is the validation loss' least-squares slope over the last validations, in nats per
    1,000 updates; NaN where there are fewer than two.
    """
    curve, shape = model.curve, model.run.size
    last, best = curve.iloc[-1], curve.loc[curve["valid_loss_nats"].idxmin()]
    end = curve.tail(LAST_ROWS)
    slope = np.polyfit(end["update"], end["valid_loss_nats"], 1)[0] if len(end) > 1 else np.nan
    return {
        **model_labels(model),
        "layers": shape.layers, "width": shape.width, "heads": shape.heads,
        "parameters": sum(each.numel() for each in model.untrained().parameters()),
        "updates": int(last["update"]), "epochs": int(last["epoch"]),
        "target_tokens": int(last["target_tokens"]), "hours": last["seconds"] / 3600,
        "best_update": int(best["update"]), "best_valid_loss": best["valid_loss_nats"],
        "still_improving": bool(best["update"] == last["update"]), "slope": 1000 * slope,
    }  # fmt: skip


def _examples(model: TrainedModel) -> pd.DataFrame:
    """The first sentences of the primary test set; of generated corpora only.

    No other corpus' text leaves the machine it was read on: these tables are published.
    """
    known = registry().get(model.corpus.name)
    if known is None or known.kind is not CorpusKind.GENERATED:
        return pd.DataFrame(columns=EXAMPLE_COLUMNS)
    test, pairs = next(iter(model.corpus.tests.items()))
    kept = (model.folder / f"{test}.txt").read_text(encoding="utf-8").split("\n")
    rows = [
        (model_labels(model)["model"], test, source, reference, translation)
        for (source, reference), translation in zip(pairs.first(EXAMPLES), kept, strict=False)
    ]
    return pd.DataFrame(rows, columns=EXAMPLE_COLUMNS)


def corpora_table(tables: Tables) -> pd.DataFrame:
    """The corpora: vocabularies (different words and subwords), what was dropped, digest."""
    return tables["corpora"].drop(columns="title")


def splits_table(tables: Tables) -> pd.DataFrame:
    """Pairs and mean sentence lengths of every split."""
    return tables["splits"]


def models_table(tables: Tables) -> pd.DataFrame:
    """Shape, length of training, and how it ended."""
    shown = ["model", "parameters", "updates", "epochs", "target_tokens", "hours", "best_update",
             "best_valid_loss", "slope"]  # fmt: skip
    return tables["models"][shown]


def bleu_table(tables: Tables) -> pd.DataFrame:
    """BLEU of every test set with its 95 % half width; signatures stand in the reading."""
    return tables["bleu"][["model", "test", "casing", "score", "half_width"]]


def examples_table(tables: Tables) -> pd.DataFrame:
    """Translations beside references; no row where every corpus belongs to somebody else."""
    return tables["examples"].fillna("")


def draw_curves(tables: Tables) -> Figure:
    """Training and validation loss against updates: one panel a corpus, one colour a seed."""
    curves = tables["curves"]
    names = list(curves["corpus"].unique())
    across, down = min(len(names), ACROSS), -(-len(names) // ACROSS)
    figure = Figure(figsize=(2.5 + 4.2 * across, 0.3 + 3.2 * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
    for axis, name in zip(axes, names, strict=False):
        for place, (label, curve) in enumerate(curves[curves["corpus"] == name].groupby("model")):
            best = tables["models"].set_index("model").loc[label]
            _curve(axis, curve, best, f"C{place}")
        axis.set(title=name, xlabel="update", ylabel="nats a target token")
        axis.tick_params(labelleft=True)
    for axis in axes[len(names) :]:
        axis.axis("off")
    _legend(figure, max(len(each) for _, each in tables["models"].groupby("corpus")))
    return figure


def _curve(axis: Axes, curve: pd.DataFrame, best: pd.Series, colour: str) -> None:
    axis.plot(curve["update"], curve["train_loss_nats"], "--", color=colour, linewidth=1)
    axis.plot(curve["update"], curve["valid_loss_nats"], "-", color=colour, linewidth=1.5)
    axis.plot(best["best_update"], best["best_valid_loss"], "o", color=colour, markersize=6)


def _legend(figure: Figure, seeds: int) -> None:
    """Styles are the same in every panel; a colour is a seed where a corpus has several."""
    axis = figure.axes[0]
    lines = [
        *axis.plot([], [], "--", color="0.3", label="training (with dropout, labels smoothed)"),
        *axis.plot([], [], "-", color="0.3", label="validation"),
        *axis.plot([], [], "o", color="0.3", label="the model that is kept"),
    ]
    if seeds > 1:
        lines += [*axis.plot([], [], "s", color="C0", label="one colour a seed")]
    figure.legend(handles=lines, loc="outside lower center", ncols=2, frameon=False)


def draw_bleu(tables: Tables) -> Figure:
    """BLEU of every model on every test set, cased and lower-cased, with 95 % intervals."""
    bleu = tables["bleu"]
    names = (bleu["model"] + " · " + bleu["test"]).drop_duplicates().tolist()
    figure = Figure(figsize=(9, 1.2 + 0.38 * len(names)), layout="constrained")
    axis = figure.subplots()
    for aside, casing in zip((-0.12, 0.12), Casing, strict=True):
        scores = bleu[bleu["casing"] == casing]
        place = [names.index(f"{row.model} · {row.test}") + aside for row in scores.itertuples()]
        axis.errorbar(scores["score"], place, xerr=scores["half_width"], fmt="o", markersize=5,
                      capsize=2, color=CASING_COLOURS[casing], label=str(casing))  # fmt: skip
    axis.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5),
             xlabel="BLEU", xlim=(0, None))  # fmt: skip
    axis.grid(axis="x", linewidth=0.4)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def read(tables: Tables) -> str:
    """The reading, every number from the tables."""
    trained, train = tables["models"], tables["splits"].query("split == 'train'")
    cased = tables["bleu"].query("casing == 'cased'")
    best, worst = (cased.loc[place] for place in (cased["score"].idxmax(), cased["score"].idxmin()))
    return (
        f"{len(trained)} models on {len(train)} corpora of {train['pairs'].min():,} to "
        f"{train['pairs'].max():,} training pairs, {train['source_words'].min():.1f} to "
        f"{train['source_words'].max():.1f} English words a sentence; "
        f"{trained['parameters'].min() / 1e6:.3g} to {trained['parameters'].max() / 1e6:.3g} "
        f"million parameters, {trained['hours'].sum():.2g} hours of training in all. "
        f"{_ended(trained)} Cased BLEU runs from {_score(worst)} to {_score(best)}. Signatures: "
        f"{_signatures(tables['bleu'])}."
    )


def _ended(trained: pd.DataFrame) -> str:
    """Whether training was cut short."""
    improving = trained[trained["still_improving"]]
    return (
        f"Validation was still at its best at the last update in {len(improving)} of "
        f"{len(trained)} models; over the last validations it moved by "
        f"{trained['slope'].min():+.2g} to {trained['slope'].max():+.2g} nats per 1,000 updates."
    )


def _score(row: pd.Series) -> str:
    return f"{row['score']:.1f} ± {row['half_width']:.1f} ({row['model']} on {row['test']})"


def _signatures(bleu: pd.DataFrame) -> str:
    kept = bleu.drop_duplicates(["casing", "signature"])
    return ", ".join(f"`{row.signature}` ({row.casing})" for row in kept.itertuples())
