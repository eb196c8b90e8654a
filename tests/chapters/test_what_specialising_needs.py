"""What specialising needs: one change a training, and differences of planted scores."""

from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import ttest_rel

from headbook.artefacts.costs import Device
from headbook.artefacts.encoders import EncoderModel, EncoderRun, Objective
from headbook.artefacts.model import ModelRun, TrainedModel, trained
from headbook.artefacts.specialising import FACTOR, Change, Specialising
from headbook.artefacts.texts import Text
from headbook.chapters import config as configs
from headbook.chapters.chapter import Tables
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES
from headbook.chapters.results import published
from headbook.chapters.sixteen import what_specialising_needs as study
from headbook.chapters.sixteen._specialisation import Score, Sharpest
from headbook.claims import ledger
from headbook.claims.scorecard import checked
from headbook.corpora.readers import Pairs, ParallelCorpus, load
from headbook.corpora.report import Report
from headbook.planning import plan
from headbook.runs.store import Store
from headbook.statistics import over_seeds
from headbook.types import UserError

NAME = "27_what_specialising_needs"
BASE = Config("smoke").specialising().model
SEEDS = 3
AT_THE_END = {
    Change.NONE: 0.40,
    Change.UPDATES: 0.70,
    Change.BATCHES: 0.45,
    Change.PAIRS: 0.30,
    Change.WIDTH: 0.60,
    Change.OBJECTIVE: 0.75,
}
LUCK = (0.0, 0.01, -0.04)
"""Of a seed, of every change but none."""


def positional(change: Change, seed: int, part: float) -> float:
    luck = 0.0 if change is Change.NONE else LUCK[seed]
    return part * (AT_THE_END[change] + luck)


class Snapshots(TrainedModel):
    @property
    def snapshots(self) -> dict[int, Path]:
        last = self.run.training.updates
        return dict.fromkeys((last // 2, last), self.folder)


class MaskedSnapshots(EncoderModel):
    snapshots = Snapshots.snapshots


def kept(run: ModelRun | EncoderRun, store: Store) -> TrainedModel | EncoderModel:
    text = Pairs(("a",) * (run.pairs or 500), ("b",) * (run.pairs or 500))
    corpus = ParallelCorpus(run.corpus, "xx", text, text, {}, "", Report())
    return (Snapshots if isinstance(run, ModelRun) else MaskedSnapshots)(run, Path(), corpus)


def change_of(run: ModelRun | EncoderRun) -> Change:
    same = BASE.with_seed(run.training.seed)
    asked = Specialising(same, Config("smoke").specialising().pairs)
    (found,) = [change for change in Change if asked.changed(change) == run]
    return found


def compute(monkeypatch: pytest.MonkeyPatch, seeds: int, folder: Path) -> Tables:
    """Through `study.compute`, of planted models: half of the last score at half of the updates."""

    def sharpest(at: tuple[TrainedModel | EncoderModel, int], scored: Score) -> Sharpest:
        model, update = at
        run = model.run
        value = positional(change_of(run), run.training.seed, update / run.training.updates)
        signed = value if scored is Score.NEIGHBOUR else -value
        return Sharpest(0, 0, 1, signed, torch.tensor([signed], dtype=torch.float64))

    def bleu(model: TrainedModel, curves: tuple, count: int, store: Store, at: int) -> object:
        return SimpleNamespace(bleu=[100 * at / model.run.training.updates])

    for run in ModelRun, EncoderRun:
        monkeypatch.setattr(run, "trained", kept)
    fakes = {
        "text_of": lambda model, name, config, store: Text(name, (), (), (), "gold"),
        "measure": lambda model, text, store, update: SimpleNamespace(sums=(model, update)),
        "sharpest": sharpest, "score": bleu,
        "most_confident": lambda at: SimpleNamespace(value=0.5),
        "_relation": lambda best, sums, text: {"relation": "", "first_word": 0.0},
    }  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(study, name, fake)
    smoke = PROFILES["smoke"]
    asked = replace(smoke, specialising=replace(smoke.specialising, seeds=seeds))
    monkeypatch.setattr(configs, "PROFILES", {"smoke": asked})
    return study.trained_here(Config("smoke"), Store(folder))


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tables:
    return compute(monkeypatch, SEEDS, tmp_path)


@pytest.fixture
def of_one_seed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tables:
    return compute(monkeypatch, 1, tmp_path)


# --------------------------------------------------------------------------- what is trained


def _flat(run: ModelRun) -> dict[str, object]:
    fields = asdict(run)
    return {**fields.pop("size"), **fields.pop("training"), **fields}


def test_every_change_is_of_one_thing() -> None:
    asked = Specialising(BASE, 200)
    before = _flat(BASE)
    found = {}
    for change in set(Change) - {Change.OBJECTIVE}:
        after = _flat(asked.changed(change))
        found[change] = {name for name, value in after.items() if value != before[name]}
    assert found == {
        Change.NONE: set(),
        Change.UPDATES: {"updates"},
        Change.BATCHES: {"updates", "tokens"},
        Change.PAIRS: {"pairs"},
        Change.WIDTH: {"width", "feed_forward"},
    }


def test_another_objective_is_of_the_same_encoder_text_and_updates() -> None:
    seventh = Specialising(BASE.with_seed(7), 200).changed(Change.OBJECTIVE)
    assert seventh == EncoderRun(
        BASE, Objective.MASKED, replace(BASE.training, seed=7, label_smoothing=0.0)
    )


def test_small_batches_are_of_as_much_text() -> None:
    training = Specialising(BASE, 200).changed(Change.BATCHES).training
    assert training.updates * training.tokens == BASE.training.updates * BASE.training.tokens
    assert training.updates == FACTOR * BASE.training.updates


def test_every_seed_is_of_every_change() -> None:
    runs = list(Specialising(BASE.with_seed(4), 200, seeds=2).runs())
    assert [change for change, _ in runs] == [*Change, *Change]
    assert [run.training.seed for _, run in runs] == [4] * len(Change) + [5] * len(Change)
    assert len({run for _, run in runs}) == len(runs)


def test_the_longer_training_begins_as_the_shorter_one() -> None:
    """What it has more is updates alone: order of the text, weights and schedule are the same."""
    asked, store = Specialising(BASE, 200), Store.default()
    last = BASE.training.updates
    files = [
        trained(asked.changed(change), store).snapshots[last]
        for change in (Change.NONE, Change.UPDATES, Change.BATCHES)
    ]
    short, long, small = map(load_file, files)
    assert all(torch.equal(short[name], long[name]) for name in short)
    assert not all(torch.equal(short[name], small[name]) for name in short)


@pytest.mark.parametrize("given", [{"pairs": 0}, {"pairs": 1, "seeds": 0}])
def test_no_pairs_and_no_seed_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(UserError, match="at least 1"):
        Specialising(BASE, **given)


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    tiny = replace(BASE, training=replace(BASE.training, tokens=FACTOR - 1))
    with pytest.raises(UserError, match="cannot be divided"):
        Specialising(tiny, 10)


def test_a_corpus_is_left_a_part_of_its_own_pairs() -> None:
    asked = Config("smoke", corpus="controlled-svo", seed=3).specialising()
    pairs = len(load("controlled-svo", BASE.pairs).train)
    assert asked.pairs == pairs // FACTOR and asked.seeds == 1
    assert asked.model.corpus == "controlled-svo" and asked.model.training.seed == 3


def test_all_of_them_are_trained_and_planned() -> None:
    for profile in ("smoke", "quick", "laptop", "full"):
        config = Config(profile)
        runs = {run for _, run in config.specialising().runs()}
        assert runs <= {*config.translation_models(), *config.masked_models()}
        stages = {each.name: each for each in plan.stages(config, Device(400.0))}
        assert stages["what specialising needs"].runs == len(runs)


def test_a_profile_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = replace(PROFILES["smoke"], specialising=None)
    monkeypatch.setattr(configs, "PROFILES", {"smoke": bare})
    config = Config("smoke")
    with pytest.raises(UserError, match="no model to change"):
        config.specialising()
    assert config.translation_models() == config.emerging_models() and not config.masked_models()
    stages = [each.name for each in plan.stages(config, Device(1.0))]
    assert "what specialising needs" not in stages


# --------------------------------------------------------------------------- what came of it


def value(tables: Tables, claim: str) -> pd.Series:
    (row,) = [row for _, row in tables["claims"].iterrows() if row["claim"] == claim]
    return row


def test_claims_say_what_the_ledger_says_they_say(tables: Tables) -> None:
    luck = np.array(LUCK)
    for claim, gains in {
        "neighbour-needs-updates": 0.3 + luck,
        "neighbour-needs-small-batches": 0.05 + luck,
        "neighbour-needs-text": 0.1 - luck,  # less of the model with fewer pairs
        "neighbour-needs-width": 0.2 + luck,
        "neighbour-needs-updates-over-width": np.full(SEEDS, 0.1),
        "neighbour-needs-masking": 0.35 + luck,
    }.items():
        summary, row = over_seeds(gains), value(tables, claim)
        found = row[["value", "low", "high"]].to_numpy(dtype=float)
        assert found == pytest.approx([summary.mean, summary.low, summary.high]), claim


def test_one_seed_has_no_interval(of_one_seed: Tables) -> None:
    row = value(of_one_seed, "neighbour-needs-width")
    assert row["value"] == pytest.approx(0.2) and np.isnan(row["low"])
    gains = study.gains(of_one_seed).set_index(["change", "score"])
    gain = gains.loc[(str(Change.UPDATES), "neighbour")]
    assert gain["value"] == pytest.approx(0.3) and np.isnan(gain["low"])


def test_claims_are_rows_the_scorecard_takes(tables: Tables) -> None:
    known = ledger.load()
    claims = checked(known, tables["claims"].astype({"seed": str}), NAME, "test")
    # superseded claims are published and not measured again
    mine = {each.id for each in known.claims if each.study == NAME and not each.superseded}
    assert set(claims["claim"]) == mine


def test_every_checkpoint_is_a_row_and_the_untrained_one_the_first(tables: Tables) -> None:
    rows = tables["checkpoints"]
    assert len(rows) == SEEDS * len(Change) * 3
    first = rows[(rows["change"] == Change.NONE) & (rows["seed"] == 0)]
    last = BASE.training.updates
    assert list(first["update"]) == [0, last // 2, last]
    assert list(first["neighbour_offset"]) == [1, 1, 1] and set(rows["neighbour_layer"]) == {1}
    assert rows.groupby("change")["bleu"].count().eq(0).tolist() == [
        change == Change.OBJECTIVE for change in sorted(Change)
    ]
    assert first["tflop"].iloc[1] == pytest.approx(first["tflop"].iloc[2] / 2)
    longest = rows.loc[rows["change"] == Change.UPDATES, "tflop"].max()
    assert longest == pytest.approx(FACTOR * first["tflop"].max())
    of_pairs = rows[rows["change"] == Change.PAIRS]
    assert set(of_pairs["pairs"]) == {Config("smoke").specialising().pairs}


def test_gains_are_means_over_seeds_with_student_s_interval(tables: Tables) -> None:
    gains = study.gains(tables).set_index(["change", "score"])
    summary = over_seeds(np.array(LUCK) + 0.3)
    found = gains.loc[(str(Change.UPDATES), "neighbour")]
    assert found.tolist() == pytest.approx([summary.mean, summary.low, summary.high])
    assert set(study.of_shares(tables)["change"]) == {str(c) for c in Change} - {str(Change.NONE)}
    shown = study.last(tables).set_index("change")
    assert shown.index[0] == "untrained" and shown.loc["untrained", "TFLOP"] == "0"
    mean = AT_THE_END[Change.WIDTH] + np.mean(LUCK)
    assert float(shown.loc[str(Change.WIDTH), "a neighbour"]) == pytest.approx(mean, abs=0.005)


def test_p_values_are_paired_over_seeds_and_corrected_for_all_comparisons() -> None:
    noise = np.random.default_rng(0)
    shares = {change: share + 0.05 * noise.random(5) for change, share in AT_THE_END.items()}
    rows = [
        {"change": str(change), "seed": seed, "update": 9, "updates": 9, "neighbour": share}
        for change, each in shares.items()
        for seed, share in enumerate(each)
    ]
    found = study.corrected({"checkpoints": pd.DataFrame(rows)})
    raw = pd.Series(
        {claim: ttest_rel(shares[more], shares[less]).pvalue
         for claim, (more, less) in study.CLAIMS.items()}
    ).sort_values()  # fmt: skip
    by_hand = (raw * range(len(raw), 0, -1)).cummax().clip(upper=1)
    assert found[raw.index].tolist() == pytest.approx(by_hand.tolist())
    assert len(raw) == 6 and (found > raw[found.index]).any()


def test_lines_are_means_and_ranges_over_seeds(tables: Tables) -> None:
    rows = study.through(tables, "neighbour")
    rows = rows[rows["change"] == Change.WIDTH].set_index("update")
    end = rows.loc[BASE.training.updates]
    values = AT_THE_END[Change.WIDTH] + np.array(LUCK)
    assert end.drop("change").tolist() == pytest.approx([values.mean(), values.min(), values.max()])


def test_facts_are_gains_over_the_model_as_it_is() -> None:
    tables = published(NAME).tables
    facts = study.facts(tables)
    assert "nan" not in " ".join(map(str, facts.values()))
    assert facts["seeds"] == str(Config("laptop").specialising().seeds)
    raised = tables["checkpoints"].copy()
    changed = raised["change"] == Change.UPDATES
    raised.loc[changed, "neighbour"] += 0.5
    planted = study.facts(tables | {"checkpoints": raised})
    before, after = (
        float(each["updates_neighbour_gain"].split()[0].replace("−", "-"))
        for each in (facts, planted)
    )
    assert after - before == pytest.approx(50)
    assert planted["base_share"] == facts["base_share"]


def test_old_verdicts_stand_as_what_they_were() -> None:
    """Of claims about one offset, published before neighbours were told from the own token."""
    claims = published(NAME).tables["claims"]
    superseded = {
        each.id for each in ledger.load().claims if each.study == NAME and each.superseded
    }
    old = claims[claims["claim"].isin(superseded)]
    assert set(old["claim"]) == superseded and len(superseded) == 5
    assert set(published(NAME).run["added"][0]["claims"]) == superseded
