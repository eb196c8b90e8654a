"""The stage `masked`: every mask as if it were alone, resumable, refused when it cannot be."""

from pathlib import Path

import numpy as np
import pytest
import torch
from golden import Golden
from torch.nn import functional

from headbook.artefacts import masked as stage
from headbook.artefacts.masked import MASKED, Masked, MaskedRun, masked
from headbook.artefacts.model import ModelRun, Size, TrainedModel, corpus_of
from headbook.corpora.batches import collate
from headbook.corpora.subwords import Subwords
from headbook.models.decoding import Search
from headbook.models.gates import FixedGate, all_heads, closed
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.paired import corpus_bleu, statistics
from headbook.training.precision import Precision
from headbook.training.scoring import translate_corpus
from headbook.types import HeadId, Kind, UserError

GOLDEN = Golden("masked", absolute=1e-8)
ENCODER, DECODER, CROSS = (HeadId(kind, 0, 1) for kind in Kind)
MASKS = (
    (),
    (ENCODER,),
    (ENCODER, CROSS),
    (DECODER,),
    (CROSS, ENCODER),
    (HeadId(Kind.CROSS, 0, 0),),
)
SHORT = Search(beam=1, longest=0.5)


def write_corpus(folder: Path, words: str) -> Path:
    """Sentences of unequal lengths, translated as themselves backwards."""
    folder.mkdir(parents=True)
    rows = [[words[at : at + 3] for at in range(one, one + 2 + one % 5)] for one in range(40)]
    for name, part in {"train": rows[:20], "valid": rows[20:28], "test": rows[28:]}.items():
        (folder / f"{name}.en").write_text("".join(" ".join(row) + "\n" for row in part))
        (folder / f"{name}.de").write_text("".join(" ".join(row[::-1]) + "\n" for row in part))
    return folder


def untrained_model(folder: Path) -> TrainedModel:
    """Two heads of width 8 a block in one layer, in 32 bits, without an update."""
    size = Size(layers=1, width=16, feed_forward=32, heads=2)
    training = TrainingConfig(2, 200, warmup=4, precision=Precision.FULL)
    words = "the quick brown fox jumps over a lazy dog while five wizards box"
    run = ModelRun(str(write_corpus(folder / "corpus", words)), size, 40, 0.3, training)
    corpus = corpus_of(run.corpus, run.pairs)
    for side in ("source", "target"):
        Subwords.train(getattr(corpus.train, side), 40).save(folder / f"{side}.json")
    return TrainedModel(run, folder, corpus)


def asked(masks: tuple = MASKS, **options: object) -> MaskedRun:
    return MaskedRun(**({"test": "test", "sentences": 12, "update": 0, "search": SHORT} | options),
                     masks=masks)  # fmt: skip


def numbers(folder: Path) -> list[list[float]]:
    """Loss and summed statistics of every mask."""
    found = masked(untrained_model(folder), asked(), Store(folder / "runs"))
    rows = zip(found.loss.tolist(), found.statistics.sum(1).tolist(), strict=True)
    return [[loss, *sums] for loss, sums in rows]


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    GOLDEN.check(numbers(tmp_path), MASKED.version)


def test_a_gate_that_closes_half_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    half = FixedGate.forward
    monkeypatch.setattr(FixedGate, "forward", lambda self: 0.5 + 0.5 * half(self))
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(numbers(tmp_path), MASKED.version)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return untrained_model(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def found(model: TrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Masked:
    return masked(model, asked(), Store(tmp_path_factory.mktemp("runs")))


def plainly(model: TrainedModel, mask: tuple, search: Search = SHORT) -> tuple[np.ndarray, float]:
    """Statistics and loss of one mask by the ordinary ways, a sentence at a time for the loss."""
    (test,) = model.corpus.tests.values()
    pairs, network = model.encode(test), model.untrained()
    with closed(network, mask):
        sources = [source for source, _ in pairs]
        translations = translate_corpus(network, sources, model.target, search)
        total = 0.0
        for pair in pairs:
            batch = collate([pair], [0])
            total += float(functional.cross_entropy(network(batch)[0].detach(), batch.target_out[0],
                                                    reduction="sum"))  # fmt: skip
    return statistics(translations, test.target), total / sum(len(pair[1]) for pair in pairs)


def test_every_mask_is_scored_as_if_alone(model: TrainedModel, found: Masked):
    for number, mask in enumerate(MASKS):
        expected, loss = plainly(model, mask)
        assert np.array_equal(found.statistics[number], expected)
        assert found.bleu[number] == corpus_bleu(expected)
        assert found.loss[number] == pytest.approx(loss, rel=1e-5)
    assert len(set(found.loss.tolist())) == len(MASKS) - 1  # one of them is there twice
    assert len({each.tobytes() for each in found.statistics}) > 2


def test_with_a_beam_too(model: TrainedModel, tmp_path: Path):
    search = Search(beam=3, longest=0.5)
    beam = masked(model, asked(MASKS[:3], search=search), Store(tmp_path))
    for number, mask in enumerate(MASKS[:3]):
        assert np.array_equal(beam.statistics[number], plainly(model, mask, search)[0])


def counted(monkeypatch: pytest.MonkeyPatch, stop_at: int | None = None) -> list[frozenset]:
    """The masks that are scored from now on; KeyboardInterrupt at the one of that number."""
    scored: list[frozenset] = []
    score = stage.Scorer.score

    def counting(self, mask):
        if len(scored) == stop_at:
            raise KeyboardInterrupt
        scored.append(mask)
        return score(self, mask)

    monkeypatch.setattr(stage.Scorer, "score", counting)
    return scored


def test_interrupted_it_does_only_what_is_missing(
    model: TrainedModel, found: Masked, tmp_path: Path
):
    with pytest.MonkeyPatch.context() as patch:
        counted(patch, stop_at=3)
        with pytest.raises(KeyboardInterrupt):
            masked(model, asked(), Store(tmp_path))
    (rows,) = tmp_path.glob("masked/*.partial/rows.jsonl")
    with rows.open("a") as file:
        file.write('{"loss": 1.0, "stat')  # what a kill in the middle of a row leaves
    with pytest.MonkeyPatch.context() as patch:
        scored = counted(patch)
        again = masked(model, asked(), Store(tmp_path))
    assert scored == [frozenset({DECODER}), frozenset({HeadId(Kind.CROSS, 0, 0)})]
    assert np.array_equal(again.statistics, found.statistics)
    assert np.array_equal(again.loss, found.loss)


def test_a_set_that_is_asked_for_twice_is_scored_once(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scored = counted(monkeypatch)
    twice = masked(model, asked(((), (ENCODER, CROSS), (), (CROSS, ENCODER))), Store(tmp_path))
    assert len(scored) == 2 and twice.loss[0] == twice.loss[2] != twice.loss[1] == twice.loss[3]


def test_asked_again_it_reads_the_store_and_anything_else_is_another_run(
    model: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = Store(tmp_path)
    first = masked(model, asked(MASKS[:2]), store)
    monkeypatch.setattr(stage, "_score", None)
    assert np.array_equal(masked(model, asked(MASKS[:2]), store).loss, first.loss)
    others = (asked(MASKS[1:2]), asked(MASKS[:2], sentences=11), asked(MASKS[:2], test="valid"),
              asked(MASKS[:2], update=None), asked(MASKS[:2], search=Search(1)))  # fmt: skip
    for other in others:
        with pytest.raises(TypeError):
            masked(model, other, store)


def test_another_corpus_is_read_when_it_is_named(
    model: TrainedModel, found: Masked, tmp_path: Path
):
    other = write_corpus(
        tmp_path / "other", "pack my box with five dozen jugs of liquor and go now"
    )
    elsewhere = masked(model, asked(MASKS[:2], corpus=str(other)), Store(tmp_path))
    assert not np.allclose(elsewhere.loss, found.loss[:2], rtol=1e-3)
    assert elsewhere.statistics.shape == found.statistics[:2].shape


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"masks": ((), (HeadId(Kind.CROSS, 0, 7),))}, "no head cross L1H8; it has"),
        ({"test": "tset"}, "no part 'tset'; it has train, valid, test"),
        ({"sentences": 0}, "sentences is 0"),
        ({"update": 77}, "no model was kept at update 77"),
    ],
)
def test_what_cannot_be_scored_is_refused_before_anything_is(
    model: TrainedModel, tmp_path: Path, options: dict, complaint: str
):
    with pytest.raises(UserError, match=complaint):
        masked(model, asked(**options), Store(tmp_path))
    assert not list(tmp_path.glob("masked/*/rows.jsonl"))


def test_the_model_has_no_gate_afterwards(model: TrainedModel):
    network = model.untrained()
    scorer = stage.Scorer.of(network, model.encode(model.corpus.valid), SHORT)
    scorer.score(frozenset(all_heads(network)))
    assert all(block.gate is None for _, _, block in network.attentions())
    assert torch.isfinite(torch.tensor(scorer.score(frozenset())[1]))


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: MASKED.version)
