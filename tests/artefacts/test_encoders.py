"""The stage `encoder`: two objectives on one text."""

from pathlib import Path

import pytest
import torch
from golden import Golden
from small import TEXT, encoder_run

from headbook.artefacts import encoders as stage
from headbook.artefacts.encoders import (
    ENCODER,
    EncoderModel,
    Objective,
    encoder_model,
)
from headbook.artefacts.model import trained
from headbook.corpora.batches import PAD, collate
from headbook.models.perturbation import moved
from headbook.models.transformer import Transformer
from headbook.runs.store import Store

GOLDEN = Golden("encoder")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module", params=list(Objective))
def made(request: pytest.FixtureRequest, store: Store) -> EncoderModel:
    return encoder_model(encoder_run(request.param), store)


def numbers(folder: Path) -> dict[str, list[float]]:
    """What the stage keeps of both objectives after eight updates."""
    found = {}
    for objective in Objective:
        model = encoder_model(encoder_run(objective), Store(folder))
        # No weights: Adam makes steps of rounding where a gradient is none, as of a key's bias.
        found[str(objective)] = [
            *model.curve["train_loss_nats"], *model.curve["valid_loss_nats"],
            model.scores["test_nats"],
        ]  # fmt: skip
    return found


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path) -> None:
    GOLDEN.check(numbers(tmp_path), ENCODER.version)


def _logits(model: Transformer, tokens: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        rows = tokens.tolist()
        return model(collate(list(zip(rows, rows, strict=True)), range(len(rows))))


def test_only_the_masked_one_sees_what_comes(made: EncoderModel) -> None:
    tokens = torch.arange(3, 15)[None].repeat(2, 1)
    if made.run.objective is Objective.LEFT_TO_RIGHT:
        found = moved(made.model(), tokens, 6)
        assert found.before == 0 < found.after
        return
    other = tokens.clone()
    other[:, 6] += 1
    model = made.model()
    change = (_logits(model, tokens) - _logits(model, other)).abs().amax((0, 2))
    assert bool((change > 0).all())


def test_what_is_trained_is_what_the_objective_says(made: EncoderModel) -> None:
    pairs = made.pairs(made.corpus.train.source, 2, "training")
    config = made.model().config
    if made.run.objective is Objective.LEFT_TO_RIGHT:
        assert [list(target) for _, target in pairs] == made.source.encode(made.corpus.train.source)
        assert (config.encoder_layers, config.decoder_layers) == (0, 2)
        return
    assert len(pairs) == 2 * len(made.corpus.train)
    assert (config.encoder_layers, config.decoder_layers) == (2, 0)
    assert config.source_vocabulary == len(made.source) + 1
    hidden = sum(identity == len(made.source) for shown, _ in pairs for identity in shown)
    wanted = sum(identity != PAD for _, target in pairs for identity in target)
    assert 0.7 < hidden / wanted < 0.9
    assert pairs != made.pairs(made.corpus.train.source, 2, "validation")


def test_the_subwords_are_the_translation_model_s(made: EncoderModel, store: Store) -> None:
    translating = trained(TEXT, store)
    sentences = made.corpus.valid.source
    assert made.source.encode(sentences) == translating.source.encode(sentences)


def test_smoothing_and_seed_are_its_own(made: EncoderModel) -> None:
    other = made.run.with_seed(1)
    assert other.text == made.run.text and other.training.seed == 1
    kept = stage.ingredients(made.run, made.corpus)
    assert kept.inputs == {"corpus": made.corpus.digest}
    assert stage.ingredients(other, made.corpus).key != kept.key


def test_too_long_a_sentence_is_left_out(made: EncoderModel) -> None:
    words = " ".join(["dog"] * 300)
    assert made.pairs([words], 1, "test") == []
    assert len(made.pairs([words, "dog"], 1, "test")) == 1


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: ENCODER.version)
