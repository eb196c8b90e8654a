"""The stage `language`: two settings, watched without being disturbed."""

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from golden import Golden
from small import language_run

from headbook.artefacts import language as stage
from headbook.artefacts.language import (
    LANGUAGE,
    DroppingRun,
    LanguageRun,
    Setting,
    SharingRun,
    language_model,
)
from headbook.artefacts.watching import (
    NOTEBOOK,
    PROBE,
    TRAINING,
    Watched,
    WatchedAsRun,
    Watcher,
)
from headbook.corpora.batches import PAD, Batch
from headbook.heads.four_metrics import DISSIMILARITY, RAW
from headbook.models.drop_head import DropHeadSchedule, set_rate
from headbook.models.perturbation import moved
from headbook.models.transformer import Transformer
from headbook.runs.store import Store
from headbook.training.loop import Trainer
from headbook.types import UserError

GOLDEN = Golden("language")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module", params=list(Setting))
def made(request: pytest.FixtureRequest, store: Store) -> stage.LanguageModel:
    return language_model(language_run(request.param), store)


def numbers(folder: Path) -> dict[str, list[float]]:
    """What the stage keeps of both settings after eight updates."""
    found = {}
    for setting in Setting:
        model = language_model(language_run(setting), Store(folder))
        look = model.looks[-1]
        found[str(setting)] = [
            *model.curve["valid_loss_nats"], model.scores["test_nats"], look.loss_nats,
            *(float(values.double().mean()) for values in look.found[PROBE].values()),
        ]  # fmt: skip
    return found


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    GOLDEN.check(numbers(tmp_path), LANGUAGE.version)


def test_only_the_published_one_sees_what_comes(made: stage.LanguageModel):
    segments = made.segments(made.text.valid)
    tokens = torch.tensor([list(target) for _, target in segments[:4]])
    before = moved(made.model(), tokens, 8).before
    assert (before > 0) is (made.run.setting is Setting.PUBLISHED)


def test_it_is_looked_at_when_it_should_be(made: stage.LanguageModel):
    assert [look.update for look in made.looks] == [0, 1, 2, 4, 6]
    for look in made.looks:
        assert set(look.found) == {PROBE, TRAINING} and look.seconds > 0
        assert math.isfinite(look.loss_nats)
        assert look.found[PROBE][DISSIMILARITY, RAW].shape == (2, 4, 4)


def test_looking_changes_nothing(made: stage.LanguageModel, tmp_path: Path):
    other = replace(made.run, watched=Watched(segments=1, dense=0, every=100))
    unseen = language_model(other, Store(tmp_path))
    columns = ["train_loss_nats", "valid_loss_nats"]
    assert unseen.curve[columns].equals(made.curve[columns])
    assert len(unseen.looks) == 1


def test_a_look_as_the_notebook_s_changes_nothing_either(store: Store, tmp_path: Path):
    made = language_model(language_run(Setting.PUBLISHED), store)
    run = replace(made.run, watched=WatchedAsRun(segments=2, dense=3, every=2))
    watched = language_model(run, Store(tmp_path))
    columns = ["train_loss_nats", "valid_loss_nats"]
    assert watched.curve[columns].equals(made.curve[columns])
    for look in watched.looks:
        assert {form for _, form in look.found[NOTEBOOK]} == {RAW}
        assert not torch.equal(
            look.found[NOTEBOOK][DISSIMILARITY, RAW], look.found[TRAINING][DISSIMILARITY, RAW]
        )


def test_padding_is_that_of_the_batches_it_learnt_from(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Over several epochs. The planted fault: another order of segments has other shares."""
    made, seen = language_model(language_run(Setting.PUBLISHED), store), []

    def watch(self: Watcher, model: Transformer, batch: Batch, update: int, loss: float) -> None:
        seen.append(float((batch.target_out == PAD).double().mean()))

    monkeypatch.setattr(Watcher, "__call__", watch)
    language_model(made.run, Store(tmp_path))
    assert len(seen) == made.run.training.updates and max(seen) > 0
    assert made.padding(len(seen)) == pytest.approx(seen)
    other = stage.LanguageModel(made.run.with_seed(5), made.folder, made.text)
    assert other.padding(len(seen)) != pytest.approx(seen)


def test_settings_differ_in_rate_and_in_what_the_loss_counts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen = {}

    def run(trainer: Trainer):
        trainer._train = lambda: None
        trainer.config = replace(trainer.config, updates=1)
        (batch,) = [batch for batch, _ in zip(trainer._batches(), range(1), strict=False)]
        padded = int((batch.target_out == PAD).sum())
        seen[len(seen)] = (trainer._rate(1), trainer._rate(100), padded,
                           trainer._predicted(batch) - int(batch.target_mask.sum()))  # fmt: skip
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", run)
    for setting in (Setting.PUBLISHED, Setting.DESCRIBED):
        with pytest.raises(KeyboardInterrupt):
            language_model(language_run(setting), Store(tmp_path))
    (rate, later, padded, counted), (first, hundredth, none, uncounted) = seen.values()
    assert rate == later == stage.PUBLISHED_RATE and padded > 0 and counted == padded
    assert first != hundredth and none == uncounted == 0


def test_a_word_s_perplexity_is_not_given_where_padding_counts(made: stage.LanguageModel):
    described = made.run.setting is Setting.DESCRIBED
    assert ("test_perplexity_word" in made.scores) is described
    assert made.scores["test_perplexity"] == pytest.approx(math.exp(made.scores["test_nats"]))


def test_heads_are_dropped_on_schedule(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The planted fault: a rate that nobody sets leaves the plain training."""
    plain = language_model(language_run(), store).curve["valid_loss_nats"]
    given = {field.name: getattr(language_run(), field.name) for field in fields(LanguageRun)}
    run = DroppingRun(**given, drop_head=DropHeadSchedule(0.8, 0.4))
    rates = []
    monkeypatch.setattr(
        stage, "set_rate", lambda model, rate: (rates.append(rate), set_rate(model, rate))
    )
    made = language_model(run, Store(tmp_path / "dropped"))
    assert rates == pytest.approx([run.drop_head.rate(update, 8) for update in range(1, 9)])
    assert not made.curve["valid_loss_nats"].equals(plain)
    monkeypatch.setattr(stage, "set_rate", lambda model, rate: None)
    idle = language_model(run, Store(tmp_path / "idle"))
    assert idle.curve["valid_loss_nats"].equals(plain)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key_value_heads": 3}, "cannot share 3"),
        ({"layer_heads": (4, 4, 4)}, "for 3 layers and the model has 2"),
    ],
)
def test_heads_that_cannot_be_so_are_refused(changed: dict[str, object], said: str, tmp_path: Path):
    given = {field.name: getattr(language_run(), field.name) for field in fields(LanguageRun)}
    with pytest.raises(UserError, match=said):
        language_model(SharingRun(**given, **changed), Store(tmp_path))


def test_an_empty_probe_is_refused():
    with pytest.raises(UserError, match="0 segments is empty"):
        language_run(watched=Watched(segments=0))


if __name__ == "__main__":
    GOLDEN.write(numbers, lambda _: LANGUAGE.version)
