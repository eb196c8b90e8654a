"""The stage `model`: killed in any phase it ends the same, and numbers move with a version only."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from forking import Program
from golden import Golden
from small import write_pairs

from headbook.artefacts import model
from headbook.artefacts.model import TRAINED, ModelRun, Size, ingredients, trained
from headbook.corpora.batches import EOS
from headbook.corpora.readers import load
from headbook.models.decoding import Search
from headbook.runs.store import Store
from headbook.training import loop
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.types import UserError

HERE = Path(__file__).parent
GOLDEN = Golden("model")
"""Relative; processors sum in other orders, which after three updates in 32 bits moves a loss by
some 1e-6, while a changed formula moves it by 1e-2 and more."""

SUBJECTS = ("the dog", "a cat", "the old man", "my sister", "one bird")
VERBS = ("sees", "follows", "likes", "finds")
OBJECTS = ("the ball", "a red house", "the small tree", "water")


def write_corpus(folder: Path) -> Path:
    """Eighty English sentences and the same with the verb last: text that no grammar will move."""
    rows = [(s, v, o) for s in SUBJECTS for v in VERBS for o in OBJECTS]
    return write_pairs(folder, [(f"{s} {v} {o} .", f"{s} {o} {v} .") for s, v, o in rows], 60, 10)


def tiny(corpus: Path) -> ModelRun:
    """Two layers of width 16 and three updates; no dropout, whose masks are drawn for speed."""
    training = TrainingConfig(
        3, 200, 1.1, 4, precision=Precision.FULL, validate_every=1, first_snapshot=2
    )
    size = Size(layers=1, width=16, feed_forward=32, heads=2)
    return ModelRun(str(corpus), size, 60, 0.0, training, search=Search(beam=2, longest=0.5))


def numbers(folder: Path) -> dict[str, float]:
    """What the golden file holds of a run: losses, and sums over the final weights."""
    made = trained(tiny(write_corpus(folder / "corpus")), Store(folder / "runs"))
    found = {}
    for row in made.curve.to_dict("records"):
        found[f"train loss {row['update']}"] = row["train_loss_nats"]
        found[f"valid loss {row['update']}"] = row["valid_loss_nats"]
    for name, weight in made.model(3).state_dict().items():
        if name.endswith("attention.query.weight") or name == "logits.weight":
            found[f"mean size {name}"] = float(weight.abs().mean())
    return found


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    GOLDEN.check(numbers(tmp_path), TRAINED.version)


def test_a_changed_formula_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rate = loop.learning_rate
    monkeypatch.setattr(loop, "learning_rate", lambda *named: 1.01 * rate(*named))
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(numbers(tmp_path), TRAINED.version)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> model.TrainedModel:
    folder = tmp_path_factory.mktemp("made")
    return trained(tiny(write_corpus(folder / "corpus")), Store(folder / "runs"))


def test_a_run_holds_its_subwords_models_curve_and_scores(made: model.TrainedModel):
    files = {path.name for path in made.folder.iterdir()}
    assert files == {
        "source.json", "target.json", "best.safetensors", "snapshot-0000002.safetensors",
        "snapshot-0000003.safetensors", "curve.csv", "bleu.csv", "test.txt", "run.json",
    }  # fmt: skip
    assert list(made.snapshots) == [2, 3]
    assert len((made.folder / "test.txt").read_text().splitlines()) == 10
    assert made.bleu[["test", "casing"]].values.tolist() == [["test", "cased"], ["test", "lower"]]
    assert made.bleu["signature"].str.contains("tok:13a").all()
    assert made.bleu["chrf_signature"].str.contains("nc:6").all()
    assert made.bleu["chrf_score"].between(0, 100).all()
    assert made.curve["update"].tolist() == [1, 2, 3]


def test_the_models_on_the_way_can_be_had(made: model.TrainedModel):
    untrained, best, last = made.untrained(), made.model(), made.model(3)
    weights = [each.logits.weight for each in (untrained, made.model(2), last)]
    assert not torch.equal(weights[0], weights[1]) and not torch.equal(weights[1], weights[2])
    assert not (untrained.training or best.training or last.training)
    assert torch.equal(made.untrained().logits.weight, weights[0])
    with pytest.raises(UserError, match=r"update 4; kept: \[2, 3\]"):
        made.model(4)


def test_another_seed_starts_from_another_model(made: model.TrainedModel):
    other = model.initial_model(made.run.with_seed(1), made.source, made.target)
    assert not torch.equal(other.logits.weight, made.untrained().logits.weight)
    assert made.run.with_seed(1).with_seed(0) == made.run


def test_the_key_moves_with_config_text_and_precision(made: model.TrainedModel):
    keys = [ingredients(made.run, made.corpus).key]
    keys.append(ingredients(made.run.with_seed(1), made.corpus).key)
    keys.append(ingredients(replace(made.run, vocabulary=61), made.corpus).key)
    keys.append(ingredients(made.run, replace(made.corpus, digest="other")).key)
    assert len(set(keys)) == 4
    full = ingredients(made.run, made.corpus)
    assert full.policy["precision"] == "32-true" and full.inputs == {"corpus": made.corpus.digest}


def test_pairs_over_the_longest_are_left_out():
    pairs = [([3] * source, [3] * target) for source, target in ((2, 200), (201, 2), (2, 201))]
    assert model.short(pairs) == pairs[:1]


def test_a_line_without_spaces_is_cut_to_subwords_and_said(
    made: model.TrainedModel, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    corpus = write_corpus(tmp_path / "corpus")
    test = corpus / "test.en"
    test.write_text(test.read_text().replace("water", "dog" * 400))
    train = corpus / "train.en"
    train.write_text(train.read_text() + "\n")
    (corpus / "train.de").write_text((corpus / "train.de").read_text() + "\n")
    monkeypatch.setattr(model, "LONGEST_EVALUATED", 30)
    again = trained(tiny(corpus), Store(tmp_path / "runs"))
    said = capsys.readouterr().out.splitlines()
    assert f"{corpus}: train: dropped 1 of 61 pairs: one side is empty" in said
    changed = sum("dogdog" in line for line in test.read_text().splitlines())
    assert f"{corpus}: test: {changed} lines cut to their first 30 subwords" in said
    rows = [source for source, _ in again.encode(again.corpus.tests["test"])]
    assert max(map(len, rows)) == 30
    whole = again.source.encode(again.corpus.tests["test"].source)
    assert rows == [row if len(row) <= 30 else [*row[:29], EOS] for row in whole]
    assert len((again.folder / "test.txt").read_text().splitlines()) == 10


def test_asked_again_it_is_not_trained_again(
    made: model.TrainedModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(model, "_train", None)
    again = trained(made.run, Store(made.folder.parents[1]))
    assert again.folder == made.folder and again.corpus.digest == load(made.run.corpus).digest


SCRIPT = HERE / "killable_stage.py"


KILLED = -signal.SIGKILL


@pytest.fixture(scope="module")
def stage_killed() -> Iterator[Program]:
    with Program.of_script(SCRIPT, "train") as program:
        yield program


def results(store: Path) -> dict[str, object]:
    """Every file of the one finished run but its record; the curve without its seconds."""
    (record,) = (store / "model").glob("*/run.json")
    files: dict[str, object] = {
        path.name: path.read_bytes() for path in record.parent.iterdir() if path != record
    }
    curve = pd.read_csv(record.parent / "curve.csv").drop(columns="seconds")
    return files | {"curve.csv": curve.to_csv()}


def test_killed_in_every_phase_it_ends_the_same(tmp_path: Path, stage_killed: Program):
    corpus = write_corpus(tmp_path / "corpus")
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"

    def status(store: Path, place: str) -> int:
        return stage_killed.run([str(store), str(corpus), place], tmp_path).returncode

    assert status(unbroken, "finish") == 0
    phases = ("subwords", "training", "scoring", "renaming")
    assert [status(broken, phase) for phase in phases] == [KILLED] * len(phases)
    assert [path.suffix for path in (broken / "model").iterdir() if path.is_dir()] == [".partial"]
    assert status(broken, "finish") == 0
    assert results(broken) == results(unbroken)
    assert not list((broken / "model").glob("*.partial"))


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: TRAINED.version)
