"""Gates and their controls on a tiny translator, trained until the loss settles."""

from pathlib import Path

import pandas as pd
import pytest
from small import translation_run, write_corpus

import headbook as hb
from headbook.experiments import until_settled
from headbook.experiments.until_settled import Setting, sweep
from headbook.runs.store import Store
from headbook.training.train import trained

pytestmark = pytest.mark.slow
PRICES, UNSETTLED = [0.0, 50.0], -99.0
GIVEN = {"kinds": ["encoder", "decoder", "cross"], "tokens": 200, "sentences": 6,
         "gate_factor": 9000.0}  # fmt: skip


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEADBOOK_RUNS", str(tmp_path / "runs"))
    wanted = translation_run(write_corpus(tmp_path / "corpus"))
    folder = trained(wanted, Store.default())
    monkeypatch.setattr(until_settled, "run", lambda name: wanted)
    monkeypatch.setattr(until_settled, "load", lambda name: hb.load(folder))
    until_settled.pairs.cache_clear()
    return "tiny"


def test_controls_close_as_many_heads_as_gates(model: str, monkeypatch) -> None:
    asked = {"model": model, "updates": 60, "settled": 99.0, "draws": 2, "scratch": 2, **GIVEN}
    trainings, heads = sweep(PRICES, **asked)
    kept = trainings.set_index(["chosen", "penalty", "draw"])["kept"]
    assert kept["whole", 0.0, 0] == 6 and kept["gates", 50.0, 0] == 0
    controls = trainings[~trainings["chosen"].isin(["whole", "gates"])]
    gates = kept.xs("gates")
    assert controls["kept"].tolist() == [gates[x, 0] for x in controls["penalty"]]
    assert {"random", "importance", "scratch"} == set(controls["chosen"])
    bleu = trainings.set_index(["chosen", "penalty"])["bleu"]["gates"]
    gaps = [bleu[row.penalty] - row.bleu for row in controls.itertuples()]
    assert controls["gap"].tolist() == pytest.approx(gaps)
    counted = heads.groupby(until_settled.KEYS[2:], sort=False)["kept"].sum()
    assert counted.tolist() == trainings["kept"].tolist()
    blocks = heads.assign(block=heads["head"].str.partition("H")[0])
    blocks = blocks.pivot_table("kept", ["penalty", "block"], ["chosen", "draw"], aggfunc="sum")
    blocks = blocks[blocks["random", 0].notna()]
    assert (blocks["gates", 0] == blocks["random"].T).all(axis=None)
    assert heads.query("chosen == 'gates'")["log_alpha"].notna().all()

    monkeypatch.setattr(until_settled, "Trainer", None)  # all are kept
    again = sweep(PRICES, minutes=0.0, **asked)
    for one, other in zip((trainings, heads), again, strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_training_goes_on_until_its_loss_settles(model: str) -> None:
    given = {"model": model, "updates": 6, "most": 9, "draws": 0, **GIVEN}
    for settled, made in ((UNSETTLED, 9), (99.0, 6)):
        trainings, _ = sweep([], settled=settled, **given)
        assert trainings["trained"].tolist() == [made]


def test_without_time_nothing_begins(model: str, capsys: pytest.CaptureFixture) -> None:
    trainings, heads = sweep(PRICES, model=model, minutes=0.0, **GIVEN)
    assert trainings.empty and heads.empty and "0 of 3" in capsys.readouterr().out


def test_a_model_from_scratch_is_the_one_that_its_recipe_trained(
    model: str, tmp_path: Path
) -> None:
    asked, again = until_settled.load(model), until_settled.load(model)
    for weight in again.network.parameters():
        weight.data.zero_()
    text = [until_settled.pairs(model, part) for part in ("train", "valid")]
    until_settled.begin_anew(again.network, [], text, Setting(model), tmp_path / "anew")
    for one, other in zip(asked.network.parameters(), again.network.parameters(), strict=True):
        assert one.equal(other)
