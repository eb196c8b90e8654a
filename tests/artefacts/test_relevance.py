"""The stage `relevance`: propagated once, at any update; its numbers move with its version only."""

from pathlib import Path

import pytest
import torch
from golden import Golden
from small import same, untrained_model

from headbook.artefacts import relevance as stage
from headbook.artefacts.model import TrainedModel, trained
from headbook.artefacts.relevance import RELEVANCE, RelevanceRun, relevance
from headbook.heads import relevance_rules
from headbook.heads.relevance_rules import Variant
from headbook.runs.store import Store
from headbook.types import Kind, UserError

# a sum that nearly cancels makes differences of processors larger
GOLDEN = Golden("relevance", relative=1e-3, absolute=1e-5)
with_every_variant = pytest.mark.parametrize("variant", list(Variant))
Numbers = dict[str, list[float]]


def numbers(folder: Path) -> Numbers:
    """What the golden file holds: of each mean of each variant the heads' or layers' values."""
    made, store = untrained_model(folder), Store(folder / "runs")
    return {
        f"{variant} {name}": each.ratio().flatten().tolist()
        for variant in Variant
        for name, each in relevance(made, RelevanceRun(variant, 5, 0), store).items()
    }


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    GOLDEN.check(numbers(tmp_path), RELEVANCE.version)


def test_another_constant_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plain = relevance_rules.stabilised
    monkeypatch.setattr(relevance_rules, "stabilised", lambda sums, by: plain(sums, 1.1 * by))
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(numbers(tmp_path), RELEVANCE.version)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, store: Store) -> TrainedModel:
    return trained(untrained_model(tmp_path_factory.mktemp("made")).run, store)


@with_every_variant
def test_every_mean_has_its_shape(model: TrainedModel, store: Store, variant: Variant):
    sums = relevance(model, RelevanceRun(variant, 8), store)
    heads = {
        f"{what}/{kind}": (1, 2) for what in ("normalised", "raw", "absolute") for kind in Kind
    }
    totals = {
        f"{what}/{kind}": (1,)
        for what in ("conservation", "growth")
        for kind in (Kind.ENCODER, Kind.DECODER)
    }
    shapes = {name: tuple(each.ratio().shape) for name, each in sums.items()}
    assert shapes == heads | totals | {"source": ()}
    for kind in Kind:
        shares = sums[f"normalised/{kind}"].ratio()
        torch.testing.assert_close(shares.sum(-1), torch.ones(1).double())


def test_asked_again_it_reads_the_store(
    model: TrainedModel, store: Store, monkeypatch: pytest.MonkeyPatch
):
    run = RelevanceRun(Variant.SIGNED, 8)
    first = relevance(model, run, store)
    monkeypatch.setattr(stage, "_propagate", None)
    assert same(first, relevance(model, run, store))
    others = [RelevanceRun(Variant.SIGNED, 7), RelevanceRun(Variant.SIGNED, 8, 1),
              RelevanceRun(Variant.SIGNED, 8, 0)]  # fmt: skip
    for other in others:
        with pytest.raises(TypeError):
            relevance(model, other, store)


def test_the_first_sentences_of_the_validation_set_count(model: TrainedModel, store: Store):
    few = relevance(model, RelevanceRun(Variant.CODE_2019, 3), store)
    targets = [target for _, target in model.encode(model.corpus.valid.first(3))]
    assert few["raw/encoder"].denominator[:, 0].sum() == sum(map(len, targets))
    everything = relevance(model, RelevanceRun(Variant.CODE_2019, 8), store)
    assert same(everything, relevance(model, RelevanceRun(Variant.CODE_2019, 99), store))


def test_training_moves_relevance(model: TrainedModel, store: Store):
    before, after = (
        relevance(model, RelevanceRun(Variant.CODE_2019, 8, update), store) for update in (0, 2)
    )
    assert not same(before, after)


def test_it_can_be_watched(model: TrainedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    relevance(model, RelevanceRun(Variant.CODE_2019, 2), Store(tmp_path))
    assert "relevance: 100%" in capsys.readouterr().err


def test_bad_questions_are_refused(model: TrainedModel, store: Store):
    with pytest.raises(UserError, match="sentences is 0"):
        relevance(model, RelevanceRun(Variant.SIGNED, 0), store)
    with pytest.raises(UserError, match=r"update 5; kept: \[1, 2\]"):
        relevance(model, RelevanceRun(Variant.SIGNED, 8, 5), store)


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: RELEVANCE.version)
