"""The stage `language`: two settings, watched without being disturbed, killed and resumed.

`python tests/artefacts/test_language.py` writes golden_language.json anew:
together with a new version of the stage.
"""

import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import torch

from headbook.artefacts import language as stage
from headbook.artefacts import trained as trained_models
from headbook.artefacts.language import (
    LANGUAGE,
    DroppingRun,
    LanguageRun,
    Setting,
    SharingRun,
    language_model,
)
from headbook.artefacts.model import Size
from headbook.artefacts.watching import PROBE, TRAINING, Watched
from headbook.corpora.batches import PAD
from headbook.heads.four_metrics import DISSIMILARITY, RAW
from headbook.models.drop_head import DropHeadSchedule, set_rate
from headbook.models.perturbation import moved
from headbook.runs.store import Store
from headbook.training.config import Precision, TrainingConfig
from headbook.training.loop import Trainer
from headbook.types import UserError

GOLDEN = Path(__file__).parent / "golden_language.json"
TOLERANCE = 1e-4
TRAINING_CONFIG = TrainingConfig(
    updates=8, tokens=64, scale=0.5, warmup=4, label_smoothing=0.0, precision=Precision.FULL,
    validate_every=4, first_snapshot=64,
)  # fmt: skip


def a_run(setting: Setting = Setting.DESCRIBED, **changed: object) -> LanguageRun:
    given = LanguageRun(
        "controlled-sov", Size(2, 16, 32, 4), 200, 0.1, TRAINING_CONFIG, setting, context=16,
        lines=60, watched=Watched(segments=2, dense=3, every=2),
    )  # fmt: skip
    return replace(given, **changed)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module", params=list(Setting))
def made(request: pytest.FixtureRequest, store: Store) -> stage.LanguageModel:
    return language_model(a_run(request.param), store)


def numbers(folder: Path) -> dict[str, list[float]]:
    """What the stage keeps of both settings after eight updates."""
    found = {}
    for setting in Setting:
        model = language_model(a_run(setting), Store(folder))
        look = model.looks[-1]
        found[str(setting)] = [
            *model.curve["valid_loss_nats"], model.scores["test_nats"], look.loss_nats,
            *(float(values.double().mean()) for values in look.found[PROBE].values()),
        ]  # fmt: skip
    return found


def assert_golden(found: dict[str, list[float]], version: int) -> None:
    golden = json.loads(GOLDEN.read_text())
    same = found.keys() == golden["numbers"].keys() and all(
        torch.allclose(torch.tensor(found[name]), torch.tensor(kept), rtol=TOLERANCE)
        for name, kept in golden["numbers"].items()
    )
    assert golden["version"] == version and same, (
        "raise the version of LANGUAGE, then run "
        f"`python tests/artefacts/test_language.py`: {found}"
    )


def test_the_numbers_stand_as_long_as_the_version(tmp_path: Path):
    assert_golden(numbers(tmp_path), LANGUAGE.version)


def test_a_changed_rate_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stage, "PUBLISHED_RATE", 0.02)
    with pytest.raises(AssertionError, match="raise the version"):
        assert_golden(numbers(tmp_path), LANGUAGE.version)


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
            language_model(a_run(setting), Store(tmp_path))
    (rate, later, padded, counted), (first, hundredth, none, uncounted) = seen.values()
    assert rate == later == stage.PUBLISHED_RATE and padded > 0 and counted == padded
    assert first != hundredth and none == uncounted == 0


def test_killed_it_ends_as_if_it_had_not_been(
    made: stage.LanguageModel, tmp_path: Path, killed_at: Callable
):
    killed_at(5, lambda: language_model(made.run, Store(tmp_path)))
    again = language_model(made.run, Store(tmp_path))
    one, other = (each.model().state_dict() for each in (made, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [look.loss_nats for look in again.looks] == [look.loss_nats for look in made.looks]
    for mine, theirs in zip(again.looks, made.looks, strict=True):
        assert all(torch.equal(mine.found[PROBE][at], theirs.found[PROBE][at])
                   for at in mine.found[PROBE])  # fmt: skip


def test_a_word_s_perplexity_is_not_given_where_padding_counts(made: stage.LanguageModel):
    described = made.run.setting is Setting.DESCRIBED
    assert ("test_perplexity_word" in made.scores) is described
    assert made.scores["test_perplexity"] == pytest.approx(math.exp(made.scores["test_nats"]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"context": 100_000}, "no segment of 100000"),
        ({"size": Size(2, 16, 32, 3)}, "not a multiple of heads 3"),
        ({"corpus": "wikitext-3"}, "did you mean"),
    ],
)
def test_bad_input_is_one_line(changed: dict[str, object], said: str, tmp_path: Path):
    with pytest.raises(UserError, match=said) as caught:
        language_model(a_run(**changed), Store(tmp_path))
    assert "\n" not in str(caught.value)


def test_cut_at_a_deadline_it_goes_on(made: stage.LanguageModel, tmp_path: Path):
    said: list[str] = []
    given = ((made.run,), Store(tmp_path), said.append)
    assert not trained_models.train_missing(*given, deadline=0.0)
    assert said == [f"stopped before {said[0].removeprefix('stopped before ')}"]
    with pytest.MonkeyPatch.context() as patch:
        # it starts, and is late at once
        patch.setattr(trained_models, "time", SimpleNamespace(monotonic=lambda: -1.0))
        assert not trained_models.train_missing(*given, deadline=0.0)
    assert "stopped at update 1 of 8; the same command continues" in said[-1]
    assert trained_models.train_missing(*given, deadline=math.inf)
    assert trained_models.train_missing(*given, deadline=0.0) and said[-1].endswith(": kept")
    one, other = (each.model().state_dict() for each in (made, language_model(*given[0], given[1])))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_heads_are_dropped_on_schedule(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The planted fault: a rate that nobody sets leaves the plain training."""
    plain = language_model(a_run(), store).curve["valid_loss_nats"]
    given = {field.name: getattr(a_run(), field.name) for field in fields(LanguageRun)}
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
        ({"layer_heads": (4, 4, 4)}, "heads of 3 layers are told of 2"),
    ],
)
def test_heads_that_cannot_be_so_are_refused(changed: dict[str, object], said: str, tmp_path: Path):
    given = {field.name: getattr(a_run(), field.name) for field in fields(LanguageRun)}
    with pytest.raises(UserError, match=said):
        language_model(SharingRun(**given, **changed), Store(tmp_path))


def test_an_empty_probe_is_refused():
    with pytest.raises(UserError, match="0 segments is empty"):
        a_run(watched=Watched(segments=0))


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        kept = {"version": LANGUAGE.version, "numbers": numbers(Path(folder))}
    GOLDEN.write_text(json.dumps(kept, indent=1) + "\n")
