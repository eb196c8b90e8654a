"""Page 21, models trained here: one head left in a block."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
import pandas as pd

from headbook.artefacts.masked import Masked, MaskedRun, changes, masked
from headbook.artefacts.model import Heads, TrainedModel, heads_of, primary, trained
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.sixteen._ablations import compared, head_columns
from headbook.chapters.sixteen._curves import SIGNIFICANT
from headbook.chapters.tables import claim_row, model_labels, stacked
from headbook.claims.published import ENDS, harmless
from headbook.pruning.ranking import keep_one
from headbook.runs.store import Store
from headbook.statistics import percentile_interval
from headbook.training.paired import paired, resampled
from headbook.types import HeadId, Kind

CHOSEN_ON = "valid"
Block = tuple[Kind, int]


class Choice(StrEnum):
    """Choice of the head that stays in a block; BLEU is of the test set in any case."""

    VALIDATION = "best on the validation set"  # as in Table 5, which chose on another test set
    TEST = "best on the test set itself"  # as in Table 2: flattered by its own luck
    RANDOM = "random head"  # the mean over all heads of the block


@dataclass(frozen=True)
class Subject:
    """One model with one head left in one block, for every head: mask 0 is the whole model."""

    trained: TrainedModel
    heads: Heads
    valid: Masked
    test: Masked

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.trained)

    @cached_property
    def blocks(self) -> Mapping[Block, list[int]]:
        """The masks of each block."""
        found: dict[Block, list[int]] = {}
        for number, head in enumerate(self.heads, start=1):
            found.setdefault((head.kind, head.layer), []).append(number)
        return found

    def best(self, block: Block, choice: Choice) -> int:
        """The mask of the block's best head, ties to the first."""
        bleu = (self.valid if choice is Choice.VALIDATION else self.test).bleu
        return max(self.blocks[block], key=lambda mask: bleu[mask])


def trained_here(config: Config, store: Store) -> Tables:
    """BLEU with each head left alone in its block, and with the best one in each block."""
    sentences = config.preset.pruning.translated
    subjects = [_subject(trained(run, store), sentences, store) for run in config.examined_models()]
    blocks = [_blocks(each) for each in subjects]
    return {
        "heads": stacked(_heads(each) for each in subjects),
        "blocks": stacked(blocks),
        "together": stacked(_together(each, sentences, store) for each in subjects),
        "claims": pd.DataFrame(
            [row for pair in zip(subjects, blocks, strict=True) for row in _claims(*pair)]
        ),
    }


def _subject(model: TrainedModel, sentences: int, store: Store) -> Subject:
    heads = heads_of(model)
    masks = ((), *(keep_one(heads, head) for head in heads))
    valid, test = (
        masked(model, MaskedRun(name, sentences, masks), store)
        for name in (CHOSEN_ON, primary(model))
    )
    return Subject(model, heads, valid, test)


def _heads(each: Subject) -> pd.DataFrame:
    """One row a head: the change of BLEU where it alone is left in its block."""
    rows = pd.concat([head_columns(each.heads), compared(each.test)], axis=1)
    return rows.assign(change_valid=changes(each.valid), **each.labels)


def _blocks(each: Subject) -> pd.DataFrame:
    """One row a block and choice: the head that stays, the change of BLEU on the test set."""
    rows = [
        {"kind": str(block[0]), "layer": block[1] + 1, "choice": str(choice),
         **_left(each, block, choice)}
        for block in each.blocks
        for choice in Choice
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(whole_bleu=float(each.test.bleu[0]), **each.labels)


def _left(each: Subject, block: Block, choice: Choice) -> dict[str, object]:
    if choice is Choice.RANDOM:
        return _mean_of(each, block)
    mask = each.best(block, choice)
    test = paired(each.test.statistics[mask], each.test.statistics[0])
    return {"head": float(each.heads[mask - 1].head + 1), "change": test.difference,
            "low": test.low, "high": test.high, "p": test.p,
            "significant": test.p < SIGNIFICANT}  # fmt: skip


def _mean_of(each: Subject, block: Block) -> dict[str, object]:
    """The mean over the heads that could stay, its interval over the same resampled sentences."""
    statistics = each.test.statistics
    drawn = np.mean([resampled(statistics[mask]) for mask in each.blocks[block]], axis=0)
    low, high = percentile_interval(drawn - resampled(statistics[0]))
    change = np.mean(each.test.bleu[each.blocks[block]]) - each.test.bleu[0]
    return {"head": np.nan, "change": float(change), "low": float(low), "high": float(high),
            "p": np.nan, "significant": False}  # fmt: skip


def _together(each: Subject, sentences: int, store: Store) -> pd.DataFrame:
    """Every block of a kind, and then of all, reduced at once to the head best by validation."""
    scopes = {**{str(kind): (kind,) for kind in Kind}, "all": tuple(Kind)}
    masks = [tuple(_all_at_once(each, kinds)) for kinds in scopes.values()]
    run = MaskedRun(primary(each.trained), sentences, ((), *masks))
    found = compared(masked(each.trained, run, store))
    alone = _blocks(each).query("choice == @Choice.VALIDATION")
    sums = [alone.loc[alone["kind"].isin(kinds), "change"].sum() for kinds in scopes.values()]
    kept = [len(each.heads) - len(mask) for mask in masks]
    return found.assign(scope=list(scopes), sum_of_changes=sums, heads_left=kept, **each.labels)


def _all_at_once(each: Subject, kinds: tuple[Kind, ...]) -> Iterator[HeadId]:
    for block in each.blocks:
        if block[0] in kinds:
            yield from keep_one(each.heads, each.heads[each.best(block, Choice.VALIDATION) - 1])


def _claims(each: Subject, blocks: pd.DataFrame) -> Iterator[dict[str, object]]:
    alone = blocks[blocks["choice"] == Choice.VALIDATION]
    numbers = harmless(alone)
    yield claim_row("michel-t5-one-head-suffices", each.labels, *(numbers[end] for end in ENDS))
    yield claim_row("michel-t2-last-cross-exception", each.labels, *_exception(each))


def _exception(each: Subject) -> tuple[float, float, float]:
    """The last cross-attention's change less that of the worst other block; NaN without one."""
    masks = {block: each.best(block, Choice.VALIDATION) for block in each.blocks}
    last = masks.pop(max(block for block in masks if block[0] is Kind.CROSS))
    worst = min(masks.values(), key=lambda mask: each.test.bleu[mask])
    test = paired(each.test.statistics[last], each.test.statistics[worst])
    return test.difference, test.low, test.high
