"""Page 49: plain attention at roles of one, and claims that follow the rows."""

import numpy as np
import pandas as pd
import pytest

from headbook.artefacts.brackets import Solved
from headbook.chapters.why.binding import (
    Parameters,
    by_depth,
    compute,
    learnt_claims,
    plan,
    reduction,
    rows_of,
    trainings,
)
from headbook.models.binding import Roles
from headbook.runs.store import Store
from headbook.types import UserError


def rows(accuracy) -> pd.DataFrame:
    """The planned rows with an accuracy by roles, depth and seed."""
    found = []
    for run in plan(10):
        values = {str(depth): accuracy(run.roles, depth, run.seed) for depth in (1, 2, 3, 4)}
        flat = dict.fromkeys(values, 0.4)
        tested = dict.fromkeys(values, 500)
        found += rows_of(run, Solved(values, flat, tested, 100, [1.0, 0.5]))
    return pd.DataFrame(found)


def test_roles_of_one_are_plain_attention():
    assert max(row["difference"] for row in reduction()) < 1e-12


def test_claims_follow_the_rows_and_gains_are_per_seed():
    def accuracy(roles: Roles, depth: int, seed: int) -> float:
        gain = {Roles.QUERY: 0.03 * depth, Roles.CONSTANT: 0.01}.get(roles, 0.0)
        return 0.9 + gain - 0.05 * seed * (depth == 3)

    table = rows(accuracy)
    found = pd.DataFrame(learnt_claims(table)).set_index("claim")
    assert found.loc["binding-roles-help", "value"] == pytest.approx(0.06)
    assert found.loc["binding-roles-of-the-query", "value"] == pytest.approx(0.05)
    assert found.loc["binding-deeper-gains-more", "value"] == pytest.approx(0.06)
    # seeds differ alike in every model, so differences do not
    assert np.allclose(found["low"], found["value"]) and set(found["closed"]) == {"none"}


def test_models_that_never_learnt_two_brackets_close_the_gate():
    found = pd.DataFrame(learnt_claims(rows(lambda *_: 0.5)))
    assert found["closed"].str.startswith("converged:").all()


def test_tables_have_every_kind_of_roles_and_the_majority():
    table = rows(lambda roles, depth, seed: 0.5 + 0.1 * seed)
    assert len(trainings(table)) == len(Roles) + 1
    mean = by_depth(table)
    mean = mean[mean["roles"] == Roles.QUERY]
    assert np.allclose(mean["value"], 0.6) and np.allclose(mean["high"], 0.7)
    assert len({*plan(10)}) == len(list(plan(10))) == 9


def test_too_few_sentences_are_refused(tmp_path):
    with pytest.raises(UserError, match="give 8 or more"):
        compute(Parameters(sentences=4), Store(tmp_path))
