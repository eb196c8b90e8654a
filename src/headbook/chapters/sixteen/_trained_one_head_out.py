"""Page 20, models trained here: one head taken out at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from headbook.artefacts.masked import Masked, MaskedRun, changes, masked, one_head_out
from headbook.artefacts.model import Heads, TrainedModel, heads_of, primary, trained
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen._ablations import compared, head_columns, improving
from headbook.chapters.sixteen._second_texts import OTHER, Text, correlation, other_texts
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.claims.published import ENDS, harmless
from headbook.runs.store import Store
from headbook.types import Kind


@dataclass(frozen=True)
class Subject:
    """One model, all its heads taken out one at a time on several texts, and whole blocks."""

    trained: TrainedModel
    heads: Heads
    found: Masked
    elsewhere: dict[Text, Masked]
    blocks: Masked

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.trained)


def trained_here(config: Config, store: Store) -> Tables:
    """BLEU without each head, on the test set and on other texts, and without whole blocks."""
    sentences = config.preset.pruning.translated
    subjects = [_subject(trained(run, store), sentences, store) for run in config.examined_models()]
    heads = [_heads(each) for each in subjects]
    agreement = [_agreement(each) for each in subjects]
    tables = zip(subjects, heads, agreement, strict=True)
    return {
        "heads": stacked(heads),
        "elsewhere": stacked(_elsewhere(each) for each in subjects),
        "agreement": stacked(agreement),
        "blocks": stacked(_blocks(each) for each in subjects),
        "claims": pd.DataFrame([row for each in tables for row in _claims(*each)]),
    }


def _subject(model: TrainedModel, sentences: int, store: Store) -> Subject:
    heads, test = heads_of(model), primary(model)
    texts = {
        text: one_head_out(model, text.test, sentences, store, text.corpus)
        for text in other_texts(model)
    }
    of_block: dict[tuple[Kind, int], Heads] = {}
    for head in heads:
        block = head.kind, head.layer
        of_block[block] = (*of_block.get(block, ()), head)
    blocks = masked(model, MaskedRun(test, sentences, ((), *of_block.values())), store)
    return Subject(model, heads, one_head_out(model, test, sentences, store), texts, blocks)


def _heads(each: Subject) -> pd.DataFrame:
    rows = pd.concat([head_columns(each.heads), compared(each.found)], axis=1)
    return rows.assign(**each.labels)


def _elsewhere(each: Subject) -> pd.DataFrame:
    """One row a head and text: the change there beside the change on the test set."""
    own = head_columns(each.heads).assign(change=changes(each.found))
    rows = [
        own.assign(text=text.name, text_kind=text.kind, change_there=changes(found))
        for text, found in each.elsewhere.items()
    ]
    return stacked(rows).assign(**each.labels)


def _agreement(each: Subject) -> pd.DataFrame:
    """One row a text: Pearson's correlation of the changes with those on the test set."""
    rows = []
    for text, found in each.elsewhere.items():
        r, low, high = correlation(changes(each.found), changes(found))
        rows.append({"text": text.name, "text_kind": text.kind, "whole_bleu": found.bleu[0],
                     "pearson": r, "low": low, "high": high})  # fmt: skip
    return pd.DataFrame(rows).assign(**each.labels)


def _blocks(each: Subject) -> pd.DataFrame:
    """One row per block: the cost of removing all its heads, and the sum of the costs of each."""
    single = head_columns(each.heads).assign(change=changes(each.found))
    sums = single.groupby(["kind", "layer"], sort=False)["change"].sum().rename("sum_of_changes")
    together = compared(each.blocks)
    return pd.concat([sums.reset_index(), together], axis=1).assign(**each.labels)


def _claims(
    each: Subject, heads: pd.DataFrame, agreement: pd.DataFrame
) -> Iterator[dict[str, object]]:
    labels = each.labels
    encoder = heads[heads["kind"] == Kind.ENCODER]
    numbers = harmless(encoder)
    yield claim_row("michel-t1-few-significant", labels, *(numbers[end] for end in ENDS))
    yield claim_row("michel-t1-half-improve", labels, *improving(encoder))
    yield claim_row("michel-t1-range", labels, *_most_missed(encoder))
    for row in agreement[agreement["text_kind"] == OTHER].to_dict("records"):
        numbers = row["pearson"], row["low"], row["high"]
        yield claim_row("michel-f2-same-heads-elsewhere", labels, *numbers)


def _most_missed(encoder: pd.DataFrame) -> tuple[float, float, float]:
    """The largest loss as a share of the whole model's BLEU, with its interval."""
    row = encoder.loc[encoder["change"].idxmin()]
    if not row["whole_bleu"]:
        return (float("nan"),) * 3
    change, low, high = (float(row[name] / row["whole_bleu"]) for name in ("change", "low", "high"))
    return change, low, high
