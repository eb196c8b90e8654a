"""A released student pruned on its own translations: four updates of the real model."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headbook import paths
from headbook.artefacts import distilled as text_stage
from headbook.artefacts.distilled import Distilled, DistilledRun, distilled
from headbook.artefacts.released_pruned import (
    Choice,
    ReleasedPruning,
    held_pairs,
    released_pruned,
)
from headbook.looking.load import load
from headbook.models.loaded import digest
from headbook.pruning.gating import gates
from headbook.released.firefox import FirefoxModel
from headbook.runs.store import Store
from headbook.syntax.treebank import read_conllu
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.types import HeadId, Kind, UserError

TRAINING = TrainingConfig(
    updates=4, tokens=300, label_smoothing=0.0, validate_every=2, precision=Precision.FULL
)
CLOSED = (HeadId(Kind.ENCODER, 0, 0), HeadId(Kind.ENCODER, 5, 7))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """English sentences as a corpus folder; the other side is only there to be scored against."""
    folder = tmp_path_factory.mktemp("corpus")
    trees = read_conllu(paths.DATA / "sample" / "ewt-test-500.conllu")
    lines = list(dict.fromkeys(tree.text for tree in trees if 8 <= len(tree) <= 14))[:40]
    for split, part in {"train": lines[:30], "valid": lines[30:34], "test": lines[34:]}.items():
        for side in ("en", "pt"):
            (folder / f"{split}.{side}").write_text("\n".join(part) + "\n")
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(corpus, store) -> Distilled:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            text_stage,
            "_sentences",
            lambda name: (corpus / "train.en").read_text().split("\n")[:-1],
        )
        return distilled(model(), DistilledRun((("sample", 30),)), store)


def model() -> FirefoxModel:
    return load("firefox-en-pt")


def run(corpus: Path, choice: Choice, **options) -> ReleasedPruning:
    return ReleasedPruning(choice, TRAINING, held=6, test=str(corpus), sentences=4, **options)


def test_distilled_pairs_are_the_models_own_translations(text, corpus) -> None:
    loaded = model()
    sentences = (corpus / "train.en").read_text().split("\n")[:-1]
    assert len(text.pairs) == len(sentences)
    (batch,) = loaded.batches(sentences[:1])
    source, target = text.pairs[0]
    assert source == batch.source[0].tolist()
    assert target[:-1] == loaded.translate_batch(batch, shortlist=True)[0]


def test_an_interrupted_distillation_goes_on_behind_its_last_chunk(
    text, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(text_stage, "CHUNK", 10)
    rows = (text.folder / "pairs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "pairs.jsonl").write_text("".join(rows[:13]) + rows[13][:20])
    assert text_stage._whole_lines(tmp_path / "pairs.jsonl") == 10
    assert (tmp_path / "pairs.jsonl").read_text() == "".join(rows[:10])


def test_fixed_heads_stay_closed_and_the_other_weights_are_trained(text, corpus, store) -> None:
    found = released_pruned(model, text, run(corpus, Choice.FIXED, closed=CLOSED), store)
    assert found.closed == CLOSED and not found.gates
    assert len(found.translations) == 4 and found.statistics.shape == (4, 10)
    assert found.curve["update"].tolist() == [2, 4] and 0 < found.loss < 5
    before, after = model(), model()
    found.install(after)
    assert torch.equal(before.network.source.weight, after.network.source.weight)
    moved = (
        after.network.encoder[0].attention.value.weight
        - before.network.encoder[0].attention.value.weight
    )
    assert float(moved.abs().max()) > 0
    assert after.translate(["A cat."])  # with the heads closed


def test_gates_are_learnt_and_frozen_weights_stay_as_they_were(text, corpus, store) -> None:
    free = released_pruned(model, text, run(corpus, Choice.GATES, penalty=0.5), store)
    frozen = released_pruned(
        model, text, run(corpus, Choice.GATES, penalty=0.5, frozen=True), store
    )
    assert len(free.gates) == len(frozen.gates) == 48
    assert all(value < 2.0 for *_, value in frozen.gates)  # the penalty pushes every gate down
    loaded = model()
    own = digest(loaded.network)
    frozen.install(loaded)
    for _, _, block in loaded.network.attentions():
        block.gate = None
    assert digest(loaded.network) == own
    assert list(free.curve.columns[-3:]) == ["expected_heads", "kept_heads", "saturated_share"]


def test_a_student_into_english_is_scored_on_the_other_side(tmp_path) -> None:
    portuguese, english = (
        ["O gato dorme .", "Chove muito ."],
        ["The cat sleeps now .", "It rains ."],
    )
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.en").write_text("\n".join(english) + "\n")
        (tmp_path / f"{split}.pt").write_text("\n".join(portuguese) + "\n")
    student, store = load("firefox-pt-en"), Store(tmp_path / "runs")
    own = distilled(student, DistilledRun((("own", 2),)), store, lambda name: portuguese)
    once = replace(TRAINING, updates=1)
    asked = ReleasedPruning(Choice.FIXED, once, held=1, test=str(tmp_path), sentences=2)
    found = released_pruned(lambda: load("firefox-pt-en"), own, asked, store)
    assert found.statistics[:, 1].tolist() == [5, 3]  # words of the English references


def test_what_is_not_stored_is_not_translated_where_only_that_is_asked(tmp_path) -> None:
    run, store = DistilledRun((("own", 1),)), Store(tmp_path)
    assert distilled(model(), run, store, lambda name: ["A cat sleeps."], stored=True) is None
    assert not list(tmp_path.rglob("pairs.jsonl"))


def test_held_pairs_are_the_same_for_every_run(text) -> None:
    assert held_pairs(text, 6) == held_pairs(text, 6)
    assert len({tuple(source) for source, _ in held_pairs(text, 6)}) == 6


def test_every_sentence_has_a_draw_of_its_own(text) -> None:
    from headbook.pruning.gating import gate_heads
    from headbook.pruning.hard_concrete import CONSTANTS, Source

    network = model().network
    gate_heads(network, (Kind.ENCODER,), CONSTANTS[Source.CODE], 0, start=0.0)
    network.train()
    for _, _, gate in gates(network):
        gate.rows = 5
        drawn = gate()
        assert drawn.shape == (5, 8) and len(drawn.unique(dim=0)) > 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"choice": Choice.GATES, "closed": CLOSED}, "give no closed ones"),
        ({"choice": Choice.FIXED, "frozen": True}, "nothing to train"),
        ({"choice": Choice.GATES, "penalty": -1.0}, "0 or more"),
    ],
)
def test_contradictions_are_refused_before_anything_is_trained(options, said) -> None:
    with pytest.raises(UserError, match=said):
        ReleasedPruning(training=TRAINING, **options)


def test_too_few_pairs_are_said(text, corpus, store) -> None:
    asked = replace(run(corpus, Choice.FIXED), held=30)
    with pytest.raises(UserError, match="leave none to train on"):
        released_pruned(model, text, asked, store)


def test_another_models_translations_are_refused(text, corpus, store) -> None:
    asked = replace(run(corpus, Choice.FIXED), held=5)
    with pytest.raises(UserError, match="did not translate this text"):
        released_pruned(lambda: load("firefox-pt-en"), text, asked, store)
