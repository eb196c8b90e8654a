"""Page 14, models trained here: the rare-word head."""

from collections.abc import Iterator
from dataclasses import replace

import pandas as pd

from headbook.artefacts.heads import DEFAULT
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.measurements import Measurement, measurements
from headbook.chapters.specialised_heads._head_tables import RAREST
from headbook.chapters.specialised_heads._rare_rivals import (
    COLUMNS,
    chosen_head,
    rival_rows,
    scored,
)
from headbook.chapters.tables import claim_row, stacked
from headbook.heads.rare import OUTSIDE_TOP, RareUnit
from headbook.runs.store import Store
from headbook.statistics import interval

BY_SENTENCE = replace(DEFAULT, rare_unit=RareUnit.SENTENCE)
FIRST_LAYER, EVERY_LAYER = "first layer", "every layer"
NAN = float("nan")


def trained_here(config: Config, store: Store) -> Tables:
    """Shares at the rarest tokens under both readings, beside chance, and split by rival causes."""
    by_query = list(measurements(config, store, updates=(None, 0)))
    by_sentence = list(measurements(config, store, choices=BY_SENTENCE))
    best = [each for each in by_query if each.run.update is None]
    return {
        "chosen": stacked(_chosen(each) for each in (*by_query, *by_sentence)),
        "kept": pd.DataFrame([_kept(each) for each in by_sentence]),
        "rivals": pd.DataFrame([row for each in best for row in rival_rows(each)], columns=COLUMNS),
        "claims": pd.DataFrame([row for each in best for row in _claims(each)]),
    }


def _labels(measurement: Measurement) -> dict[str, object]:
    return {**measurement.labels, "unit": str(measurement.run.choices.rare_unit)}


def _kept(measurement: Measurement) -> dict[str, object]:
    """Number of sentences with a token outside the most frequent; counted by sentence only."""
    kept, every = measurement.sums["rare"].denominator[:, 0].sum(), len(measurement.text.sentences)
    return {**measurement.labels, "outside_top": OUTSIDE_TOP, "sentences": every,
            "kept": int(kept), "share": float(kept) / every}  # fmt: skip


def _chosen(measurement: Measurement) -> pd.DataFrame:
    """The head with most pointing at the two rarest, chosen on one half and scored on the other."""
    sums, rows = measurement.sums, []
    for scope, layers in ((FIRST_LAYER, 1), (EVERY_LAYER, None)):
        head = chosen_head(sums["rare"], layers)
        for column, pointing in enumerate(RAREST):
            value, low, high = scored(sums["rare"], head, column)
            rows.append(
                {"scope": scope, "layer": head[0] + 1 if head else NAN,
                 "head": head[1] + 1 if head else NAN, "pointing": pointing, "value": value,
                 "low": low, "high": high, "chance": scored(sums["rare chance"], (0, 0), column)[0],
                 "random": scored(sums["random rare"], (0, 0), column)[0]}
            )  # fmt: skip
    return pd.DataFrame(rows).assign(**_labels(measurement))


def _claims(measurement: Measurement) -> Iterator[dict[str, object]]:
    sums, labels = measurement.sums, measurement.labels
    head = chosen_head(sums["rare"], 1)
    for claim, column in (("rarest", 0), ("two-rarest-short", 1), ("two-rarest-long", 1)):
        chance = scored(sums["rare chance"], (0, 0), column)[0]
        found = scored(sums["rare"], head, column)
        yield claim_row(f"voita-f5-{claim}", labels, *found, baseline=chance)
    shares = sums["rare"].replicates()[..., 1]
    layers = shares.nan_to_num(nan=-1).amax(-1).argmax(-1).double() + 1
    layers[shares.isnan().all(-1).all(-1)] = NAN
    yield claim_row("voita-f5-first-layer", labels, *interval(layers))
