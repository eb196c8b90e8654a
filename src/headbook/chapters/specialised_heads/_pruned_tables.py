"""The tables of a λ sweep: BLEU of every point and control, and how far apart they are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float

from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.pruned import ENCODER_ONLY, PrunedModel, keeping, primary_translations
from headbook.chapters import words
from headbook.chapters.config import Config
from headbook.chapters.sweeps import (
    NOT_LEARNED,
    Kinds,
    Point,
    further,
    random_controls,
    scratch_controls,
    still_learning,
    swept,
)
from headbook.chapters.tables import claim_row, model_labels
from headbook.runs.store import Store
from headbook.statistics import interval
from headbook.training.paired import (
    Paired,
    Statistics,
    corpus_bleu,
    paired,
    resampled,
    statistics,
)
from headbook.types import HeadId, Kind

BEFORE = "before pruning"
"""The arm of the trained model itself."""
NAN = float("nan")
NO_NUMBER = Paired(NAN, NAN, NAN, NAN)
Replicates = Float[np.ndarray, " replicate"]
"""A number as it is, and then on each of the resampled test sets."""


@dataclass(frozen=True)
class Translated:
    """One model of a sweep, or the model before it, and how it translates the primary test set, or
    its first `sentences`."""

    arm: str
    penalty: float
    made: TrainedModel
    sentences: int | None = None

    @property
    def closed_heads(self) -> tuple[HeadId, ...]:
        return self.made.closed if isinstance(self.made, PrunedModel) else ()

    @property
    def closed(self) -> int:
        """Number of heads removed."""
        return len(self.closed_heads)

    @cached_property
    def statistics(self) -> Statistics:
        found = primary_translations(self.made)[: self.sentences]
        references = next(iter(self.made.corpus.tests.values())).target
        return statistics(found, references[: len(found)])

    @cached_property
    def bleu(self) -> Replicates:
        """Cased BLEU; the same resamples for every model of one test set."""
        return np.concatenate([[corpus_bleu(self.statistics)], resampled(self.statistics)])


@dataclass(frozen=True)
class Sweep:
    """All that was made of one trained model with gates on these kinds of attention."""

    base: TrainedModel
    kinds: Kinds
    points: tuple[Point, ...]
    whole: Point  # nothing closed, the same further training
    random: tuple[Point, ...]
    scratch: tuple[Point, ...]

    @property
    def heads(self) -> int:
        """Number of heads with a gate."""
        size = self.base.run.size
        return len(self.kinds) * size.layers * size.heads

    @property
    def labels(self) -> dict[str, object]:
        return model_labels(self.base)

    @cached_property
    def before(self) -> Translated:
        tested = len(self.whole.made.translations)
        return Translated(BEFORE, NOT_LEARNED, self.base, tested)

    @cached_property
    def further(self) -> Translated:
        return _translated(self.whole)

    @cached_property
    def learned(self) -> tuple[Translated, ...]:
        """The models of the sweep, in the order of its penalties."""
        return tuple(map(_translated, self.points))

    @cached_property
    def controls(self) -> tuple[Translated, ...]:
        """Random heads and heads from scratch."""
        return tuple(map(_translated, (*self.random, *self.scratch)))

    def kept(self, each: Translated) -> int:
        return self.heads - each.closed

    def pairs(self, arm: str) -> list[tuple[Translated, Translated]]:
        """Every point that has a control of this arm, with the control."""
        found = {each.penalty: each for each in self.controls if each.arm == arm}
        return [(each, found[each.penalty]) for each in self.learned if each.penalty in found]


def _translated(point: Point) -> Translated:
    return Translated(point.arm, point.penalty, point.made)


def sweeps(config: Config, kinds: Kinds, store: Store) -> Iterator[Sweep]:
    """The sweep of each of the models that part 2 prunes, with its controls; made where missing."""
    alone = kinds == ENCODER_ONLY
    for run in config.encoder_pruned_models() if alone else config.pruned_models():
        base = trained(run, store)
        points = tuple(swept(base, kinds, config, store))
        yield Sweep(
            base,
            kinds,
            points,
            further(base, kinds, config, store),
            tuple(random_controls(base, kinds, points, config, store)),
            tuple(scratch_controls(base, kinds, points, config, store)),
        )


def point_rows(sweep: Sweep) -> pd.DataFrame:
    """One row per model: heads kept, BLEU, and BLEU against the model before and further trained.

    `low` and `high` are 95 % intervals over resampled sentences; `p` is that of the paired
    bootstrap. Saturated gates are those that are 0 or 1 without rounding. `encoder_heads` names the
    encoder heads that are kept.
    """
    rows = []
    for each in (sweep.before, sweep.further, *sweep.learned, *sweep.controls):
        bleu, low, high = interval(each.bleu)
        rows.append(
            {
                **sweep.labels, "arm": each.arm, "penalty": each.penalty,
                "kept": sweep.kept(each), "of": sweep.heads,
                "share_kept": sweep.kept(each) / sweep.heads,
                **_by_kind(sweep, each),
                "encoder_heads": _encoder_heads(sweep, each),
                "bleu": bleu, "bleu_low": low, "bleu_high": high,
                **_named("to_before", compared(each, sweep.before)),
                **_named("to_further", compared(each, sweep.further)),
                **_last_row(each),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _by_kind(sweep: Sweep, each: Translated) -> dict[str, int]:
    of_kind = sweep.heads // len(sweep.kinds)
    return {
        f"{kind}_kept": of_kind - sum(head.kind == kind for head in each.closed_heads)
        for kind in sweep.kinds
    }


def _encoder_heads(sweep: Sweep, each: Translated) -> str:
    size = sweep.base.run.size
    kept = keeping([each.closed_heads], sweep.kinds, size)[0, sweep.kinds.index(Kind.ENCODER)]
    return " ".join(words.head(*place) for place in (1 + np.argwhere(kept)).tolist())


def _last_row(each: Translated) -> dict[str, float]:
    """End of training: validation loss, and number of saturated gates."""
    curve = each.made.curve
    # The trained model is the best of its run; what is trained further is kept as it ends.
    losses = curve["valid_loss_nats"]
    loss = float(losses.min() if each.arm == BEFORE else losses.iloc[-1])
    saturated = curve["saturated_share"].iloc[-1] if "saturated_share" in curve else NAN
    return {"valid_loss_nats": loss, "saturated_share": float(saturated)}


def compared(each: Translated, baseline: Translated) -> Paired:
    """BLEU of one minus BLEU of the other; no number for a model beside itself."""
    if each is baseline:
        return NO_NUMBER
    return paired(each.statistics, baseline.statistics)


def _named(prefix: str, test: Paired) -> dict[str, float]:
    ends = {f"{prefix}_{name}": getattr(test, name) for name in ("low", "high", "p")}
    return {prefix: test.difference, **ends}


def control_table(found: Iterable[Sweep]) -> pd.DataFrame:
    """One row a (point, control) with as many heads in every block: the gap in BLEU."""
    columns = ["model", "corpus", "target", "seed", "penalty", "kept", "of", "control", "bleu",
               "control_bleu", "gap", "gap_low", "gap_high", "gap_p"]  # fmt: skip
    return pd.DataFrame([row for each in found for row in _control_rows(each)], columns=columns)


def _control_rows(sweep: Sweep) -> Iterator[dict[str, object]]:
    for arm in dict.fromkeys(each.arm for each in sweep.controls):
        for point, control in sweep.pairs(arm):
            yield {
                **sweep.labels, "penalty": point.penalty, "kept": sweep.kept(point),
                "of": sweep.heads, "control": arm, "bleu": float(point.bleu[0]),
                "control_bleu": float(control.bleu[0]), **_named("gap", compared(point, control)),
            }  # fmt: skip


def mean_gap(sweep: Sweep, arm: str) -> Replicates:
    """BLEU of the points minus BLEU of their controls, mean over the counts that have one."""
    gaps = [point.bleu - control.bleu for point, control in sweep.pairs(arm)]
    return np.mean(gaps, axis=0) if gaps else np.array([NAN, NAN])


def gap_claim(claim: str, sweep: Sweep, arm: str) -> dict[str, object]:
    """A claim on `mean_gap`; its interval is over resampled sentences."""
    models = [each.made for pair in sweep.pairs(arm) for each in pair] or [sweep.whole.made]
    return replicates_claim(claim, sweep, mean_gap(sweep, arm)) | still_learning(models)


def loss_claim(claim: str, sweep: Sweep, point: Translated | None) -> dict[str, object]:
    """A claim on BLEU of one point minus that of the whole model after the same further training,
    its baseline."""
    whole = float(sweep.further.bleu[0])
    test = NO_NUMBER if point is None else compared(point, sweep.further)
    row = claim_row(claim, sweep.labels, test.difference, test.low, test.high, whole)
    compared_models = (sweep.further, point or sweep.further)
    return row | still_learning(each.made for each in compared_models)


def replicates_claim(
    claim: str, sweep: Sweep, values: Replicates, baseline: float = NAN
) -> dict[str, object]:
    """A claim on a number and its replicates."""
    return claim_row(claim, sweep.labels, *interval(values), baseline)


def under_half(sweep: Sweep) -> Translated | None:
    """The point that keeps the most heads among those that keep fewer than half."""
    return _first(sweep, lambda kept: 2 * kept < sweep.heads, lambda kept: -kept)


def near_ten_of_48(sweep: Sweep) -> Translated | None:
    """The point nearest to 10 of 48 heads, of those that keep some but at most a quarter."""
    return _first(
        sweep,
        lambda kept: 0 < kept <= sweep.heads / 4,
        lambda kept: (abs(48 * kept - 10 * sweep.heads), kept),
    )


def _first(
    sweep: Sweep, counts: Callable[[int], bool], order: Callable[[int], object]
) -> Translated | None:
    """Of points that keep equally many, the one with the smallest penalty."""
    found: Iterable[Translated] = (each for each in sweep.learned if counts(sweep.kept(each)))
    by_penalty: Sequence[Translated] = sorted(found, key=lambda each: each.penalty)
    return min(by_penalty, key=lambda each: order(sweep.kept(each)), default=None)
