"""Pruning a tiny translator: the ends of λ, controls of the same size, and surgery."""

import copy
from collections.abc import Callable

import pytest
from small import untrained_model

from headbook.experiments.pruning import Setting, sweep
from headbook.looking.ours import OurModel
from headbook.models.gates import all_heads
from headbook.types import Kind

SENTENCES = [
    f"the {who} {does} a red ball often"
    for who in ("dog", "cat", "sister")
    for does in ("sees", "likes", "finds")
]
SETTING = Setting(
    kinds=tuple(Kind), updates=60, tokens=200, gate_rate=0.08, warmup=2, start=2.0, held=4
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], OurModel]:
    made = untrained_model(tmp_path_factory.mktemp("model"))
    return lambda: copy.deepcopy(made)


def test_without_a_price_all_heads_stay_and_at_a_high_one_none(loaded: Callable) -> None:
    trainings, heads = sweep(loaded, SENTENCES, [0.0, 50.0], SETTING)
    kept = trainings.set_index(["chosen", "penalty"])["kept"]
    assert kept["whole", 0.0] == kept["gates", 0.0] == 6 and kept["gates", 50.0] == 0
    assert (kept["random"] == kept["gates"]).all() and (kept["importance"] == kept["gates"]).all()
    counted = heads.groupby(["chosen", "penalty"])["kept"].sum()
    assert counted.to_dict() == kept.to_dict()
    assert set(heads["head"]) == {head.label for head in all_heads(loaded().network)}
