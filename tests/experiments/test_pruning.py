"""Pruning a tiny translator: the ends of λ, and controls of the same size."""

import copy
from pathlib import Path

import pytest
from small import sentences, untrained_model

from headbook.experiments.pruning import Setting, sweep
from headbook.types import Kind


@pytest.mark.slow
def test_without_a_price_all_heads_stay_and_at_a_high_one_none(tmp_path: Path) -> None:
    setting = Setting(tuple(Kind), 60, tokens=200, gate_rate=0.08, warmup=2, start=2.0, held=4)
    model, source = untrained_model(tmp_path), [" ".join(row) for row in sentences()[::12]]
    trainings, heads = sweep(lambda: copy.deepcopy(model), source, [0.0, 50.0], setting)
    kept = trainings.set_index(["chosen", "penalty"])["kept"]
    assert kept["whole", 0.0] == kept["gates", 0.0] == 6 and kept["gates", 50.0] == 0
    assert (kept["random"] == kept["gates"]).all() and (kept["importance"] == kept["gates"]).all()
    assert heads.groupby(["chosen", "penalty"])["kept"].sum().to_dict() == kept.to_dict()
