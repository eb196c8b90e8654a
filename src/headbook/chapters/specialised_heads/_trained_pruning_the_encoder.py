"""Page 18 for models trained here: the sweep of gates on encoder heads, with controls and roles.

The tables that the page shows of them, and that released students stand beside.
"""

from collections.abc import Iterator

import pandas as pd

from headbook.artefacts.pruned import ENCODER_ONLY
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.specialised_heads._kept_roles import (
    NEARNESS,
    Survival,
    function_rows,
    survival,
)
from headbook.chapters.specialised_heads._pruned_tables import (
    control_table,
    gap_claim,
    loss_claim,
    near_ten_of_48,
    point_rows,
    replicates_claim,
    sweeps,
    under_half,
)
from headbook.chapters.sweeps import RANDOM, SCRATCH
from headbook.chapters.tables import stacked
from headbook.runs.store import Store
from headbook.statistics import block_matched_share, pair_share


def trained_here(config: Config, store: Store) -> Tables:
    """The encoder-only sweep of every model: BLEU with controls, and what the kept heads do."""
    found = [survival(each, config, store) for each in sweeps(config, ENCODER_ONLY, store)]
    return {
        "points": stacked(point_rows(each.sweep) for each in found),
        "controls": control_table(each.sweep for each in found),
        "functions": stacked(function_rows(each, store) for each in found),
        "claims": pd.DataFrame([row for each in found for row in _claims(each)]),
    }


def _claims(found: Survival) -> Iterator[dict[str, object]]:
    sweep = found.sweep
    yield loss_claim("voita-f7-half", sweep, under_half(sweep))
    yield loss_claim("voita-f7-four-fifths", sweep, near_ten_of_48(sweep))
    yield replicates_claim("voita-f8-specialised-last", sweep, found.specialised_gap())
    nearness = found.score(NEARNESS)
    nearer = pair_share(nearness, found.kept)
    matched = block_matched_share(nearness, found.kept, found.blocks)
    yield replicates_claim("voita-f8-nearest-a-role-last", sweep, nearer, baseline=matched)
    if sweep.scratch:  # a whole training each: not every model has them
        yield gap_claim("voita-s6-trained-beats-scratch", sweep, SCRATCH)
    yield gap_claim("voita-s6-choice-matters", sweep, RANDOM)
    yield gap_claim("budhraja-random-hardly-worse", sweep, RANDOM)
