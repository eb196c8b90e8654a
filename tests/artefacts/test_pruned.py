"""The stage `pruned`: killed it ends the same; its numbers move with a version only."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from golden import Golden
from small import write_pairs

from headbook.artefacts import model, pruned
from headbook.artefacts.importance import ImportanceRun, importance
from headbook.artefacts.masked import MaskedRun, masked
from headbook.artefacts.model import ModelRun, Size, TrainedModel, trained
from headbook.artefacts.pruned import (
    ENCODER_ONLY,
    EVERYTHING,
    PRUNED,
    PrunedModel,
    PruningRun,
    primary_translations,
)
from headbook.artefacts.relevance import RelevanceRun, relevance
from headbook.heads.relevance_rules import Variant
from headbook.models.decoding import Search
from headbook.pruning.surgery import take_out
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.loop import Trainer
from headbook.training.precision import Precision
from headbook.types import Kind, UserError

GOLDEN = Golden("pruned", absolute=1e-7)
"""Relative: what processors that sum in other orders differ by after three updates is far less."""
VERSIONS = {PRUNED.name: PRUNED.version}
TRAINING = TrainingConfig(
    3, 200, 1.1, 4, precision=Precision.FULL, validate_every=1, first_snapshot=2
)


def write_corpus(folder: Path) -> Path:
    """Thirty-two English sentences and the same with the verb last."""
    subjects, objects = ("the dog", "a cat", "my sister", "bob"), ("the ball", "it", "water", "me")
    rows = [(s, v, o) for s in subjects for v in ("sees", "follows") for o in objects]
    return write_pairs(folder, [(f"{s} {v} {o} .", f"{s} {o} {v} .") for s, v, o in rows], 20, 6)


def base_in(folder: Path) -> TrainedModel:
    size, search = Size(layers=1, width=16, feed_forward=32, heads=2), Search(1, longest=0.2)
    corpus = str(write_corpus(folder / "corpus"))
    return trained(ModelRun(corpus, size, 60, 0.0, TRAINING, search=search), Store(folder / "runs"))


def learned(base: TrainedModel, kinds=EVERYTHING, penalty: float = 0.5, **more) -> PrunedModel:
    """The gates' learning, of some updates more than the whole model's."""
    run = PruningRun(base.run, kinds, penalty, replace(TRAINING, updates=4), **more)
    return pruned.pruned(base, run, Store(base.folder.parents[1]))


def numbers(base: TrainedModel) -> dict[str, float]:
    """Losses, heads and sums over final weights of a run of each sort."""
    made = {"gates": learned(base), "encoder": learned(base, ENCODER_ONLY)}
    found = {}
    for name, each in made.items():
        for row in each.curve.drop(columns=["epoch", "target_tokens", "seconds"]).to_dict(
            "records"
        ):
            found |= {f"{name} {key} {row['update']:.0f}": value for key, value in row.items()}
        weights = each.model().state_dict()
        found[f"{name} W_O"] = float(weights["decoder.0.cross.output.weight"].abs().mean())
        found |= {
            f"{name} {r['kind']} {r['head']}": r["log_alpha"]
            for r in each.log_alphas.to_dict("records")
        }
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    return base_in(tmp_path_factory.mktemp("base"))


def test_the_numbers_stand_as_long_as_the_versions(base: TrainedModel) -> None:
    found = numbers(base)
    GOLDEN.check(found, VERSIONS)
    with pytest.raises(AssertionError, match="raise the version"):
        GOLDEN.check(found, {"pruned": 99})


def test_a_pruned_model_holds_its_heads_curve_and_translations(base: TrainedModel) -> None:
    made = learned(base)
    assert {path.name for path in made.folder.iterdir()} == {
        "model.safetensors", "heads.json", "curve.csv", "bleu.csv", "test.txt", "run.json",
    }  # fmt: skip
    gates = made.log_alphas
    assert gates["kind"].value_counts().to_dict() == {"encoder": 2, "decoder": 2, "cross": 2}
    negative = gates[gates["log_alpha"] <= 0]
    assert {(head.kind, head.layer, head.head) for head in made.closed} == {
        tuple(row) for row in negative[["kind", "layer", "head"]].values
    }
    assert made.curve["kept_heads"].iloc[-1] == 6 - len(made.closed)
    assert len(made.translations) == len(primary_translations(base)) == 6
    assert made.bleu["test"].tolist() == ["test", "test"] and made.asked.key != base.asked.key
    assert made.source.encode(["the dog"]) == base.source.encode(["the dog"])
    with pytest.raises(UserError, match="saved at its last update only"):
        made.model(3)


def test_only_the_first_sentences_are_translated_where_the_run_says_so(base: TrainedModel) -> None:
    whole, part = learned(base), learned(base, tested=2)
    assert part.translations == whole.translations[:2]


def decoder_of(made: TrainedModel) -> dict[str, torch.Tensor]:
    parts = ("target.", "decoder.", "decoder_norm.", "logits.")
    state = made.model().state_dict()
    return {k: v for k, v in state.items() if k.startswith(parts) and ".gate." not in k}


def test_with_gates_in_the_encoder_alone_the_decoder_is_the_trained_one(base: TrainedModel) -> None:
    frozen = learned(base, ENCODER_ONLY)
    kept = decoder_of(frozen)
    assert all(torch.equal(value, kept[name]) for name, value in decoder_of(base).items())
    encoder = frozen.model().encoder[0].feed_forward.inner.weight
    assert not torch.equal(encoder, base.model().encoder[0].feed_forward.inner.weight)
    assert all(head.kind is Kind.ENCODER for head in frozen.closed)
    moved = decoder_of(learned(base))
    assert any(not torch.equal(value, moved[name]) for name, value in decoder_of(base).items())


def test_a_larger_penalty_keeps_no_more_and_infinity_of_it_nothing(base: TrainedModel) -> None:
    kept = [6 - len(learned(base, penalty=each, gate_factor=50.0).closed) for each in (0.0, 50.0)]
    assert kept[1] == 0 <= kept[0]
    emptied = learned(base, penalty=50.0, gate_factor=50.0)
    assert all(block.heads == 0 for _, _, block in take_out(emptied.model()).attentions())
    assert len(emptied.translations) == 6


PHASES = {
    "training": (Trainer, "_update"),
    "scoring": (model, "bleu"),
    "renaming": (Path, "rename"),
}


def strike(place: str, patch: pytest.MonkeyPatch) -> None:
    """Puts an interruption in the way, in training after two of the updates."""
    owner, name = PHASES[place]
    whole, calls = getattr(owner, name), []

    def interrupted(*given: object, **named: object) -> object:
        calls.append(given)
        if len(calls) > 2 or place != "training":
            raise KeyboardInterrupt
        return whole(*given, **named)

    patch.setattr(owner, name, interrupted)


def test_interrupted_in_every_phase_it_ends_the_same(
    base: TrainedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, other = learned(base), base_in(tmp_path)
    monkeypatch.setattr(pruned, "Trainer", partial(Trainer, save_every=0.0))
    for place in PHASES:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            strike(place, patch)
            learned(other)
    again = learned(other)
    for name in ("model.safetensors", "heads.json", "bleu.csv", "test.txt"):
        assert (again.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    columns = ["train_loss_nats", "valid_loss_nats", "target_tokens"]
    assert again.curve[columns].equals(whole.curve[columns])
    assert {path.name for path in again.folder.iterdir()} == {
        path.name for path in whole.folder.iterdir()
    }


def test_asked_again_nothing_is_trained(
    base: TrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = learned(base).folder
    monkeypatch.setattr(pruned, "Trainer", None)
    assert made == learned(base).folder


@pytest.mark.parametrize("penalty", [-0.01, math.nan])
def test_what_is_no_penalty_is_refused_before_anything_is_trained(
    base: TrainedModel, penalty: float
) -> None:
    with pytest.raises(UserError, match="the penalty λ is"):
        PruningRun(base.run, EVERYTHING, penalty, TRAINING)


MEASURES = {
    "importance": lambda made, store: importance(made, ImportanceRun(6, pairs="train"), store),
    "masked": lambda made, store: masked(made, MaskedRun("test", 6, ((),)), store).loss,
    "relevance": lambda made, store: relevance(made, RelevanceRun(Variant.SIGNED, 6), store),
}


@pytest.mark.parametrize("stage", MEASURES)
def test_what_is_measured_of_a_pruned_model_is_not_taken_from_its_base(
    base: TrainedModel, tmp_path: Path, stage: str
) -> None:
    smaller = learned(base)
    found = [MEASURES[stage](made, Store(tmp_path)) for made in (base, smaller)]
    assert len(list((tmp_path / stage).glob("*/run.json"))) == 2
    assert str(found[0]) != str(found[1])


if __name__ == "__main__":
    GOLDEN.write(lambda folder: numbers(base_in(folder)), lambda _: VERSIONS)
