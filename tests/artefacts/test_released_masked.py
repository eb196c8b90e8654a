"""A released model under masks: known effects of closing, resuming, one line for what is off."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headbook.artefacts.released_masked import ReleasedMaskedRun, Scorer, released_masked
from headbook.looking.load import load
from headbook.models.gates import all_heads, closed
from headbook.released.firefox import FirefoxModel, load_firefox
from headbook.runs.store import Store
from headbook.training.paired import corpus_bleu, statistics
from headbook.types import HeadId, Kind, UserError

SENTENCES = ("A cat sleeps.", "Nobody knew what the committee had decided.", "Two dogs, a bone.")
REFERENCES = ("O gato dorme.", "Ninguém sabia o que o comitê decidira.", "Dois cães, um osso.")
NEXT = HeadId(Kind.ENCODER, 4, 6)
"""The head that looks at the next token, whose removal is felt at once."""
IDLE = HeadId(Kind.ENCODER, 2, 5)


@pytest.fixture(scope="module")
def student() -> FirefoxModel:
    return load_firefox("firefox-en-pt")


def changed(model: FirefoxModel) -> FirefoxModel:
    """The model with weights of its own."""
    twin = copy.copy(model)
    twin.network = copy.deepcopy(model.network)
    return twin


def scored(model: FirefoxModel, store: Store, *masks: tuple[HeadId, ...]):
    return released_masked(model, SENTENCES, REFERENCES, ReleasedMaskedRun(masks), store)


def test_a_head_that_gives_nothing_can_be_closed(student: FirefoxModel, tmp_path: Path) -> None:
    model = changed(student)
    attention = model.network.encoder[IDLE.layer].attention
    own = slice(32 * IDLE.head, 32 * (IDLE.head + 1))
    with torch.no_grad():
        attention.output.weight[:, own] = 0
    found = scored(model, Store(tmp_path), (), (IDLE,), (NEXT,))
    assert np.array_equal(found.own[0], found.own[1])
    assert np.array_equal(found.reference[0], found.reference[1])
    assert np.array_equal(found.statistics[0], found.statistics[1])
    assert found.own_loss[2] > found.own_loss[0] + 0.01


def test_without_any_head_a_block_adds_its_bias(student: FirefoxModel, tmp_path: Path) -> None:
    model = changed(student)
    cross = tuple(head for head in all_heads(model.network) if head.kind is Kind.CROSS)
    with torch.no_grad():
        for layer in model.network.decoder:
            layer.cross.output.weight.zero_()
    bias_alone = scored(model, Store(tmp_path / "one"), ())
    texts = tuple(model.text(ids[:-1]) for ids in _own(Store(tmp_path / "one"), student))
    closed_all = scored(student, Store(tmp_path / "other"), cross)
    assert closed_all.reference[0] == pytest.approx(bias_alone.reference[0], abs=1e-2)
    assert corpus_bleu(closed_all.statistics[0]) == pytest.approx(
        corpus_bleu(statistics(texts, REFERENCES))
    )


def _own(store: Store, model: FirefoxModel) -> list[list[int]]:
    (file,) = store.root.glob("released-masked/*/own.json")
    return json.loads(file.read_text())["own"]


def test_losses_and_translations_are_the_models_own(student: FirefoxModel, tmp_path: Path) -> None:
    """Cached layers, checked drafts and narrowed candidates change nothing."""
    masks = ((), (NEXT,), (HeadId(Kind.CROSS, 1, 3), IDLE), tuple(all_heads(student.network))[::2])
    found = scored(student, Store(tmp_path), *masks)
    for number, mask in enumerate(masks):
        with closed(student.network, mask):
            texts = student.translate(SENTENCES)
        assert np.array_equal(found.statistics[number], statistics(texts, REFERENCES))
    (batch,) = student.batches(SENTENCES, REFERENCES)
    with torch.inference_mode(), closed(student.network, masks[1]):
        losses = student.losses(batch, shortlist=True).double()
    # The batch's candidates differ by the model's own translations.
    assert found.reference[1].sum() == pytest.approx(float(losses.sum()), rel=0.02)
    assert found.reference_tokens.sum() == len(losses)


def test_a_model_trained_here_gives_its_own_losses_and_translations(tmp_path: Path) -> None:
    """Against `translate` and `losses`, which share neither the cached layers nor the drafts."""
    model = load("mixture-fr-256")
    heads = all_heads(model.network)
    masks = ((), (HeadId(Kind.DECODER, 5, 7),), (HeadId(Kind.CROSS, 4, 1), IDLE), tuple(heads[::2]))
    found = released_masked(model, SENTENCES, REFERENCES, ReleasedMaskedRun(masks), Store(tmp_path))
    (batch,) = model.batches(SENTENCES, REFERENCES)
    for number, mask in enumerate(masks):
        with closed(model.network, mask), torch.inference_mode():
            texts, losses = model.translate(SENTENCES), model.losses(batch).double()
        assert np.array_equal(found.statistics[number], statistics(texts, REFERENCES))
        # The padding's id is no candidate.
        assert found.reference[number].sum() == pytest.approx(float(losses.sum()), rel=1e-4)
    assert found.reference_tokens.sum() == len(losses)


def test_only_what_changes_is_decoded_again(
    student: FirefoxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []
    real = FirefoxModel.greedy
    monkeypatch.setattr(
        FirefoxModel, "greedy", lambda *args: decoded.append(len(args[1])) or real(*args)
    )
    scored(student, Store(tmp_path), ())
    assert decoded == [len(SENTENCES)]  # its own translations, once
    scored(student, Store(tmp_path), (), tuple(all_heads(student.network)))
    assert sum(decoded) == 3 * len(SENTENCES)


def test_a_killed_run_goes_on(
    student: FirefoxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks = ((), (NEXT,), (IDLE,), (NEXT,))
    whole = scored(student, Store(tmp_path / "whole"), *masks)
    real, calls = Scorer.score, []

    def killed(self: Scorer, mask: frozenset[HeadId], translated: bool):
        calls.append(mask)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, mask, translated)

    monkeypatch.setattr(Scorer, "score", killed)
    with pytest.raises(KeyboardInterrupt):
        scored(student, Store(tmp_path / "killed"), *masks)
    (rows,) = (tmp_path / "killed").glob("released-masked/*.partial/rows.jsonl")
    with rows.open("a") as file:
        file.write('{"own": [0.1')  # a row that the kill cut short
    resumed = scored(student, Store(tmp_path / "killed"), *masks)
    assert [set(mask) for mask in calls[2:]] == [{IDLE}, {IDLE}]
    assert np.array_equal(resumed.own, whole.own)
    assert np.array_equal(resumed.statistics, whole.statistics)
    assert np.array_equal(resumed.own[1], resumed.own[3])


def test_losses_alone_need_no_references(student: FirefoxModel, tmp_path: Path) -> None:
    run = ReleasedMaskedRun(((), (NEXT,)), translated=False)
    found = released_masked(student, SENTENCES, None, run, Store(tmp_path))
    assert found.statistics is None and found.reference is None
    assert found.own.shape == (2, 3)
    for read in (lambda: found.bleu, lambda: found.reference_loss):
        with pytest.raises(UserError):
            read()


def test_sentences_decide_the_key(student: FirefoxModel, tmp_path: Path) -> None:
    run = ReleasedMaskedRun(((),), translated=False)
    for given in (SENTENCES, SENTENCES[:2]):
        released_masked(student, given, None, run, Store(tmp_path))
    assert len(list(tmp_path.glob("released-masked/*/run.json"))) == 2


@pytest.mark.parametrize(
    ("sentences", "references", "masks", "said"),
    [
        ((), (), ((),), "no sentences"),
        (SENTENCES, None, ((),), "references"),
        (SENTENCES, REFERENCES, ((), (HeadId(Kind.DECODER, 0, 0),)), "no head decoder L1H1"),
    ],
)
def test_refused_in_one_line(
    student: FirefoxModel, tmp_path: Path, sentences, references, masks, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        released_masked(student, sentences, references, ReleasedMaskedRun(masks), Store(tmp_path))
    assert not list(tmp_path.glob("released-masked/*/run.json"))
