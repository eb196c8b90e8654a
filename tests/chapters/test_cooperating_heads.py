"""Page 57: pairs by layers, heads held as they were, and interactions that are planted."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
import torch

from headbook.chapters.seeing import _composing as composing
from headbook.chapters.seeing._together import held, pairs_of, removed
from headbook.chapters.seeing.cooperating_heads import (
    LAYER,
    LEAST,
    RANDOM,
    Parameters,
    _Measured,
    _sets,
    below_the_last,
    compute,
    self_repair,
    without_the_most_spared,
)
from headbook.looking.effects import NATS, VECTORS, Effects
from headbook.looking.load import load
from headbook.models.capture import Point
from headbook.models.gates import all_heads
from headbook.runs.store import Store
from headbook.types import HeadId, Kind, UserError

LAYERS = np.repeat(np.arange(3), 4)
HEADS = [HeadId(Kind.ENCODER, int(layer), at % 4) for at, layer in enumerate(LAYERS)]


def test_pairs_are_half_of_one_layer_and_more_of_them_hold_the_fewer() -> None:
    few, more = pairs_of(LAYERS, 5), pairs_of(LAYERS, 9)
    assert [LAYERS[one] == LAYERS[other] for one, other in few] == [True] * 5 + [False] * 5
    assert len(set(more)) == 18 and set(few) < set(more)
    assert len(pairs_of(LAYERS, 1000)) == 12 * 11 / 2


def test_sets_are_nested_least_important_and_whole_layers() -> None:
    found = list(_sets(LAYERS, np.arange(12.0)[::-1], draws=2))
    random = [set(chosen) for way, _, draw, chosen in found if way == RANDOM and draw == 1]
    assert [len(each) for each in random] == [1, 2, 4, 6] and random[0] < random[1] < random[3]
    assert [sorted(chosen) for way, size, _, chosen in found if way == LEAST][1] == [10, 11]
    assert [chosen for way, *_, chosen in found if way == LAYER][2] == [8, 9, 10, 11]


@pytest.mark.parametrize("name", ["minilm", "firefox-en-pt"])
@pytest.mark.parametrize("point", [Point.WEIGHTS, Point.CONTEXT])
def test_with_nothing_above_there_is_nothing_to_hold(name: str, point: Point) -> None:
    model = load(name)
    heads = [head for head in all_heads(model.network) if head.kind is Kind.ENCODER]
    chosen = [heads[0], heads[-1]]
    batches = model.batches(["The cat sat on the mat .", "Heads , heads ."], tokens=8)
    assert len(batches) == 2
    fixed = held(model, batches, chosen, point)
    free = removed(model, batches, heads, [[0], [len(heads) - 1]])
    torch.testing.assert_close(fixed.sentences, free.sentences)
    torch.testing.assert_close(fixed.added[1], free.added[1], rtol=1e-3, atol=1e-6)
    assert not torch.allclose(fixed.added[0], free.added[0], rtol=1e-2)
    assert not any(block.edits for _, _, block in model.network.attentions())


def planted(double: float, held_: float) -> _Measured:
    """12 heads that each cost 1 in every of 20 sentences; pairs cost `double`."""
    pairs = pairs_of(LAYERS, 6)
    sets = list(_sets(LAYERS, np.ones(12), draws=3))

    def effects(rows: Sequence[float]) -> Effects:
        added = torch.tensor(rows, dtype=torch.float64)[:, None].expand(-1, 20) / 20
        weights = torch.full((20,), 1 / 20, dtype=torch.float64)
        return Effects(added, weights, torch.arange(20), "nats")

    single = effects([1.0] * 12)
    joint = effects([3.0 * len(chosen) for *_, chosen in sets])
    return _Measured(HEADS, pairs, single, effects([double] * 12), sets, joint, single,
                     effects([held_] * 12))  # fmt: skip


@pytest.mark.parametrize(("double", "extra"), [(2.0, 0.0), (3.0, 0.5), (1.0, -0.5)])
def test_heads_that_do_not_meet_have_no_interaction(double: float, extra: float) -> None:
    measured = planted(double, 1.0)
    claims = pd.DataFrame(measured.claims()).set_index("claim")["value"]
    assert claims["pairs-more-than-sum"] == pytest.approx(extra)
    assert claims["pairs-within-layer"] == pytest.approx(0, abs=1e-12)
    assert claims["sets-more-than-sum"] == pytest.approx(2)
    assert claims["heads-self-repair"] == pytest.approx(0, abs=1e-12)
    assert measured.tables()["pairs"]["interaction"].to_numpy() == pytest.approx(2 * extra)


def test_repair_of_one_head_is_none_of_heads() -> None:
    """Of twenty heads every one, or only one, costs half of what it would with others held."""
    heads = pd.DataFrame({"layer": [1] * 20 + [2], "effect": 0.5, "held": 1.0})
    assert self_repair(heads, NATS)["low"] == pytest.approx(0.5)
    assert "closed" not in self_repair(heads, NATS) and "closed" in self_repair(heads, VECTORS)
    alone = heads.assign(effect=[10.0] + [1.0] * 20, held=[20.0] + [1.0] * 20)
    found = self_repair(alone, NATS)
    assert found["value"] == pytest.approx(1 - 29 / 39) and found["low"] <= 0


def test_a_quarter_made_up_for_is_a_quarter() -> None:
    measured = planted(2.0, 4 / 3)
    claims = pd.DataFrame(measured.claims()).set_index("claim")["value"]
    assert claims["heads-self-repair"] == pytest.approx(0.25)
    tables = {name: frame.assign(model="toy") for name, frame in measured.tables().items()}
    assert below_the_last(tables, "toy") == pytest.approx({"all": 0.25, "maps": 0.25})
    tables["heads"].loc[5, "held"] = 3.0
    assert without_the_most_spared(tables, "toy") == ("L2H2", pytest.approx(0.25))


def test_a_live_page_has_a_few_pairs(tmp_path) -> None:
    tables = compute(Parameters(sentences=3, pairs=2), Store(tmp_path))
    assert set(tables) == {"pairs", "composition"} and len(tables["pairs"]) == 4
    assert tables["pairs"]["interaction"].notna().all()
    assert tables["pairs"]["composition"].notna().tolist() == [False, False, True, True]
    assert len(tables["composition"]) == 3 * 15
    with pytest.raises(UserError, match="2 or more sentences"):
        compute(Parameters(sentences=1), Store(tmp_path))


def composed(strength: float, noise: float) -> tuple[np.ndarray, pd.DataFrame]:
    """Scores, and interactions that go with them, of either sign, over all pairs of two layers.

    Both grow with the effects of the heads of lower layers.
    """
    random = np.random.default_rng(0)
    across = [pair for pair in pairs_of(LAYERS, 1000) if LAYERS[pair[0]] < LAYERS[pair[1]]]
    first, second = np.array(across).T
    own, alone = random.random(len(across)), 10.0 ** -LAYERS[first]
    scores = np.full((3, 12, 12), np.nan)
    scores[:, first, second] = 1 + alone + own
    size = 5 * alone + strength * own + noise * random.random(len(across))
    places = {"layer": LAYERS[first] + 1, "head": first % 4 + 1, "other_layer": LAYERS[second] + 1,
              "other_head": second % 4 + 1}  # fmt: skip
    signs = random.choice([-1, 1], len(across))
    return scores, pd.DataFrame({**places, "alone": alone, "interaction": signs * size,
                                 "composition": scores.mean(0)[first, second]})  # fmt: skip


@pytest.mark.parametrize(("strength", "noise", "beyond"), [(1.0, 0.1, True), (0.0, 1.0, False)])
def test_composition_that_goes_with_interactions_is_told_from_shared_layers(
    strength: float, noise: float, beyond: bool
) -> None:
    scores, pairs = composed(strength, noise)
    found = pd.DataFrame(composing.claims(scores, pairs, HEADS)).set_index("claim")
    expected = np.nanmean(scores) - 1
    assert found["value"]["composition-beyond-redrawn"] == pytest.approx(expected)
    assert found["low"]["composition-with-interaction"] > 0.2
    assert (found["low"]["composition-apart-from-effects"] > 0) == beyond
    rows = composing.by_layers(scores, HEADS)
    assert len(rows) == 3 * 3 and (rows["highest"] >= rows["value"]).all()


def test_a_model_whose_weights_are_out_of_reach_has_no_scores() -> None:
    model = load("minilm")
    assert composing.scores_of(model, HEADS) is None  # 12 heads, of 72
