"""Page 46's paths: claims are the differences they name, and gates close."""

import pandas as pd
import pytest

from headbook.artefacts.paths_alone import (
    ALONG,
    FREQUENT,
    HELD,
    LAYERS,
    NO_LENGTH,
    UNTRAINED,
    UP_TO,
    WHOLE,
)
from headbook.chapters.why._path_lengths import PAPER, SEEDS, claim_rows, facts, summary
from headbook.corpora.sets import SORTING


def found(whole: float = 1.0, untrained: float = 0.1) -> pd.DataFrame:
    """Every seed alike: 70 % along one layer, 95 % up to two layers, 10 % by guessing."""
    right = {(FREQUENT, NO_LENGTH): 0.1, (WHOLE, NO_LENGTH): whole, (HELD, 1): 0.9}
    right |= {(UP_TO, length): 0.95 for length in range(LAYERS + 1)}
    right |= {(ALONG, length): 0.7 if length == 1 else 0.1 for length in range(LAYERS + 1)}
    right |= {(f"{ALONG}, {UNTRAINED}", length): untrained if length == 1 else 0.1
              for length in range(LAYERS + 1)}  # fmt: skip
    return pd.DataFrame([
        {"task": task, "seed": seed, "updates": 10, "by": by, "length": length, "right": value}
        for task in PAPER for seed in range(SEEDS) for (by, length), value in right.items()
    ])  # fmt: skip


def claims(rows: pd.DataFrame) -> pd.DataFrame:
    table = pd.DataFrame(claim_rows(rows))
    return table[table["model"].str.contains(SORTING)].set_index("claim")


def test_claims_are_the_differences_they_name():
    sorting = claims(found())
    assert sorting["value"]["paths-short-solve"].tolist() == pytest.approx([0.1] * SEEDS)
    assert sorting["value"]["paths-shorter-better"].tolist() == pytest.approx([0.6] * SEEDS)
    assert sorting["value"]["paths-shallow-carry"].tolist() == pytest.approx([0.85 / 0.9] * SEEDS)
    assert set(sorting["closed"]) == {"none"}


def test_a_task_that_is_not_learnt_closes_the_gate():
    assert claims(found(whole=0.8))["closed"].str.startswith("converged").all()


def test_what_untrained_networks_pass_proves_nothing():
    closed = claims(found(untrained=0.9))["closed"]
    assert closed["paths-short-solve"].str.startswith("diagnostic").all()
    assert (closed["paths-shallow-carry"] == "none").all()


def test_the_prose_has_each_tasks_shares():
    assert facts(found())["sorting_alone"] == "70\N{NO-BREAK SPACE}%"
    spread = found()
    spread.loc[(spread["seed"] == 1) & (spread["by"] == UP_TO), "right"] = 0.8
    assert facts(spread)["sorting_short_range"] == "80 to 95\N{NO-BREAK SPACE}%"
    assert summary(found()).set_index("task").loc[SORTING, "one layer, alone"].startswith("70")
