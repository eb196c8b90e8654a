"""Page 10: corpora, the models trained on them, and the catalogue of released models."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from headbook.artefacts.model import TrainedModel
from headbook.artefacts.trained import totals
from headbook.chapters import words
from headbook.chapters.chapter import Facts, Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import models
from headbook.chapters.tables import model_labels, of_ours, of_small, stacked
from headbook.chapters.trained import Trained, at_profile
from headbook.claims.verdict import COLUMNS
from headbook.corpora.readers import Pairs
from headbook.corpora.registry import CorpusKind, registry
from headbook.released.catalogue import Entry, catalogue
from headbook.runs.store import Store

NUMBER = 10
TITLE = "Which models does this book measure?"
WORK = "voita2019"
KEYS = ("model",)

DIGEST = 12
"""Hexadecimal digits of a corpus' digest that are shown."""
LAST_ROWS = 5
"""Validations at the end of training over which the slope is taken."""
EXAMPLES = 5
EXAMPLE_COLUMNS = ("model", "test", "source", "reference", "translation")
SPLIT_COLUMNS = ("corpus", "split", "pairs", "source_words", "target_words", "source_pieces",
                 "target_pieces")  # fmt: skip
PAPER = {"pairs": 2_500_000, "width": 512, "heads": 144, "bleu": 29.6}
"""Voita et al.'s English-Russian model on WMT (section 3 and appendix B)."""


Parameters = Trained


def compute(parameters: Parameters, store: Store) -> Tables:
    """At a profile, its corpora and models."""
    return at_profile(parameters, store, trained_here)


def trained_here(config: Config, store: Store) -> Tables:
    """Corpora and their splits, models, training curves, BLEU, and a few translations."""
    found = models(config, store)
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
    """One row per corpus, as the first of its models read it."""
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
    """One row per split: pairs, and mean sentence lengths in words and in subwords without EOS."""
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
    """One row per model: its shape, length of training, and how it ended.

    `slope` is the validation loss' least-squares slope over the last validations, in nats per
    1,000 updates; NaN where there are fewer than two.
    """
    curve, shape = model.curve, model.run.size
    last, best = curve.iloc[-1], curve.loc[curve["valid_loss_nats"].idxmin()]
    sums = totals(curve)
    end = curve.tail(LAST_ROWS)
    slope = np.polyfit(end["update"], end["valid_loss_nats"], 1)[0] if len(end) > 1 else np.nan
    return {
        **model_labels(model),
        "layers": shape.layers, "width": shape.width, "heads": shape.heads,
        "parameters": sum(each.numel() for each in model.untrained().parameters()),
        "updates": int(last["update"]), "epochs": int(last["epoch"]),
        "target_tokens": int(sums["target_tokens"]), "hours": sums["seconds"] / 3600,
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


def corpora(tables: Tables) -> pd.DataFrame:
    """One row per corpus: training pairs, words per English sentence, vocabularies, licence."""
    train = tables["splits"].query("split == 'train'").set_index("corpus")
    rows = tables["corpora"].set_index("corpus")
    return pd.DataFrame(
        {"corpus": rows.index, "training pairs": train["pairs"].map(words.count),
         "words per sentence": train["source_words"].map("{:.1f}".format),
         "different words, en": rows["source_word_types"].map(words.count),
         "target side": rows["target_word_types"].map(words.count),
         "licence": rows["licence"]}
    )  # fmt: skip


def trained(tables: Tables) -> pd.DataFrame:
    """One row per model trained here: size, length of training, cased BLEU and chrF per test set.

    Tables published before November 2026 have no chrF.
    """
    rows = tables["models"].set_index("model")
    cased = tables["bleu"].query("casing == 'cased'")
    scores = {name: _per_test(cased, start) for name, start in (("BLEU", ""), ("chrF", "chrf_"))
              if f"{start}score" in cased}  # fmt: skip
    return pd.DataFrame(
        {"model": rows.index.map(words.model),
         "parameters": rows["parameters"].map(words.count),
         "updates": rows["updates"].map(words.count),
         "hours": rows["hours"].map("{:.1f}".format),
         "validation loss": rows["best_valid_loss"].map("{:.2f}".format),
         "slope at the end": rows["slope"].map(words.signed),
         **{name: each.reindex(rows.index).fillna("") for name, each in scores.items()}}
    )  # fmt: skip


def _per_test(rows: pd.DataFrame, start: str) -> pd.Series:
    """A score of every test set with its half-width, by model."""
    rows = rows.dropna(subset=f"{start}score")
    columns = rows[[f"{start}score", f"{start}half_width"]].itertuples(index=False)
    return pd.Series([f"{score:.1f} ± {half:.1f}" for score, half in columns], rows["model"]
                     ).groupby(level=0).agg("; ".join)  # fmt: skip


def losses(tables: Tables) -> pd.DataFrame:
    """Validation loss through training, one row per model and validation."""
    curves = tables["curves"]
    seeds = curves["corpus"] + ", seed " + curves["seed"].astype(str)
    several = curves.groupby("corpus")["seed"].transform("nunique") > 1
    names = curves["model"].map(words.TITLES).fillna(seeds.where(several, curves["corpus"]))
    return curves.assign(model=names, value=curves["valid_loss_nats"])


def released() -> pd.DataFrame:
    """The catalogue of released models: name, shape, and where the weights come from."""
    rows = [(each.name, *each.title.partition(": ")[::2], _place(each))
            for each in catalogue().values()]  # fmt: skip
    return pd.DataFrame(rows, columns=["name", "model", "shape", "weights"])


def _place(entry: Entry) -> str:
    if entry.package:
        return f"pip package {entry.package}"
    return f"Hugging Face, {entry.id}" if entry.id else "download, by their digests"


def facts(tables: Tables) -> Facts:
    """The numbers of the prose: of the small models, and of the long trainings."""
    small = of_small(tables)
    rows, cased = small["models"], small["bleu"].query("casing == 'cased'")
    splits = tables["splits"].query("split == 'train'").set_index("corpus")
    train = splits.loc[rows["corpus"].unique(), "pairs"]
    known = catalogue().values()
    found: Facts = {
        "models": str(len(rows)),
        "corpora": str(len(train)),
        "pairs": f"{words.count(int(train.min()))} to {words.count(int(train.max()))}",
        "pairs_paper": words.count(PAPER["pairs"]),
        "width": str(rows["width"].iloc[0]),
        "width_paper": str(PAPER["width"]),
        # encoder, decoder and cross-attention
        "heads": str(3 * (rows["layers"] * rows["heads"]).iloc[0]),
        "heads_paper": str(PAPER["heads"]),
        "bleu_low": f"{cased['score'].min():.1f}",
        "bleu_high": f"{cased['score'].max():.1f}",
        "bleu_paper": f"{PAPER['bleu']:.1f}",
        "hours": f"{rows['hours'].sum():.1f}",
        "updates": words.count(int(rows["updates"].max())),
        "updates_least": words.count(int(rows["updates"].min())),
        "slope_least": words.signed(rows["slope"].max()),
        "slope_most": words.signed(rows["slope"].min()),
        "released": str(len(known)),
        "packaged": str(sum(bool(each.package) for each in known)),
    }
    for short, name in (("ours", words.OURS), ("narrow", words.NARROW)):
        found |= _of_long(short, of_ours(tables, name), splits["pairs"])
    return found


def _of_long(short: str, own: Tables, pairs: pd.Series) -> Facts:
    """Of a long training, whose tables `own` are; nothing where it is not published.

    A training counts its epochs from zero, and those stop near the end of one.
    """
    found: Facts = {}
    for row in own["models"].to_dict("records"):
        scores = own["bleu"].query("casing == 'cased'").set_index("test")["score"]
        found |= {
            f"{short}_pairs": words.count(int(pairs[row["corpus"]])),
            f"{short}_width": str(row["width"]),
            f"{short}_updates": words.count(row["updates"]),
            f"{short}_minutes": f"{60 * row['hours']:.0f}",
            f"{short}_epochs": str(row["epochs"] + 1), f"{short}_slope": words.signed(row["slope"]),
            f"{short}_bleu_low": f"{scores.min():.1f}", f"{short}_bleu_high": f"{scores.max():.1f}",
        }  # fmt: skip
    return found
