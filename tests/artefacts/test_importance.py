"""The stage `importance`: measured once, and its numbers move with its version only."""

from pathlib import Path

import pytest
import torch
from golden import Golden

from headbook.artefacts import importance as stage
from headbook.artefacts.importance import IMPORTANCE, ImportanceRun, importance
from headbook.artefacts.model import ModelRun, Size, TrainedModel, corpus_of
from headbook.corpora.subwords import Subwords
from headbook.heads import importance as heads
from headbook.heads.measure import RatioSums
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.types import HeadId, Kind, UserError

GOLDEN = Golden("importance", absolute=1e-8)
RUN = ImportanceRun(sentences=15, update=0)


def untrained_model(folder: Path) -> TrainedModel:
    """Two heads of width 8 a block in one layer, in 32 bits, with dropout and without an update."""
    corpus_folder = folder / "corpus"
    corpus_folder.mkdir(parents=True)
    words = "pack my box with five dozen liquor jugs and go home before it rains again"
    rows = [words[one : one + 9 + one % 13] for one in range(40)]
    for name, part in {"train": rows[:20], "valid": rows[20:28], "test": rows[28:]}.items():
        (corpus_folder / f"{name}.en").write_text("".join(f"a{row}z\n" for row in part))
        (corpus_folder / f"{name}.de").write_text("".join(f"a{row[::-1]}z\n" for row in part))
    size = Size(layers=1, width=16, feed_forward=32, heads=2)
    training = TrainingConfig(2, 200, warmup=4, precision=Precision.FULL)
    run = ModelRun(str(corpus_folder), size, 40, 0.3, training)
    corpus = corpus_of(run.corpus, run.pairs)
    for side in ("source", "target"):
        Subwords.train(getattr(corpus.train, side), 40).save(folder / f"{side}.json")
    return TrainedModel(run, folder, corpus)


def numbers(folder: Path) -> dict[str, list]:
    """Every score, and the lower ends of their intervals."""
    found = importance(untrained_model(folder), RUN, Store(folder / "runs"))
    return {
        name: [sums.ratio().tolist(), sums.interval()[0].tolist()] for name, sums in found.items()
    }


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    GOLDEN.check(numbers(tmp_path), IMPORTANCE.version)


def test_a_mean_over_the_batch_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    summed = heads._loss
    monkeypatch.setattr(heads, "_loss", lambda logits, batch: summed(logits, batch) / len(batch))
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(numbers(tmp_path), IMPORTANCE.version)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return untrained_model(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


def same(one: dict[str, RatioSums], other: dict[str, RatioSums]) -> bool:
    return one.keys() == other.keys() and all(
        torch.allclose(one[name].numerator, other[name].numerator) for name in one
    )


def test_asked_again_it_reads_the_store(
    model: TrainedModel, store: Store, monkeypatch: pytest.MonkeyPatch
):
    first = importance(model, RUN, store)
    monkeypatch.setattr(stage, "_measure", None)
    assert same(first, importance(model, RUN, store))
    for other in (ImportanceRun(14, 0), ImportanceRun(15), ImportanceRun(15, 0, "valid")):
        with pytest.raises(TypeError):
            importance(model, other, store)


def test_batches_and_the_rest_of_the_text_do_not_matter(
    model: TrainedModel, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole = importance(model, RUN, store)
    monkeypatch.setattr(stage, "BATCH_TOKENS", 1)
    assert same(whole, importance(model, RUN, Store(tmp_path)))
    fewer = importance(model, ImportanceRun(14, 0), Store(tmp_path))
    assert not same(whole, fewer)
    sentences = {name: float(each.denominator.sum(0)[0]) for name, each in fewer.items()}
    assert {sentences[f"sentence/{kind}"] for kind in Kind} == {14}


def test_closed_heads_score_0_and_move_the_others(model: TrainedModel, store: Store):
    gone = HeadId(Kind.ENCODER, 0, 1)
    full = importance(model, RUN, store)["position/encoder"].ratio()
    without = importance(model, ImportanceRun(15, 0, closed=(gone,)), store)
    left = without["position/encoder"].ratio()
    assert left[0, 1] == 0 and left[0, 0] > 0 and not torch.isclose(left[0, 0], full[0, 0])


@pytest.mark.parametrize(
    ("run", "complaint"),
    [
        (ImportanceRun(5, 0, "tests"), "no part 'tests'"),
        (ImportanceRun(0, 0), "sentences is 0"),
        (ImportanceRun(5, 0, closed=(HeadId(Kind.CROSS, 1, 0),)), "no head cross L2H1"),
        (ImportanceRun(5, 9), "no model was kept at update 9"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    model: TrainedModel, store: Store, run: ImportanceRun, complaint: str
):
    with pytest.raises(UserError, match=complaint):
        importance(model, run, store)


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: IMPORTANCE.version)
