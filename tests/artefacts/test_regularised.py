"""Regularised runs and runs that drop heads: what is trained, its key, a kill, what is refused."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from headbook.artefacts import language
from headbook.artefacts import model as translation
from headbook.artefacts.language import LanguageModel, LanguageRun, language_model
from headbook.artefacts.model import ModelRun, Size, TrainedModel, trained
from headbook.artefacts.regularised import DroppingModelRun, RegularisedLanguageRun, RegularisedRun
from headbook.artefacts.watching import Watched
from headbook.models.decoding import Search
from headbook.models.drop_head import DropHeadSchedule, set_rate
from headbook.runs.canonical import plain
from headbook.runs.store import Store
from headbook.training.config import TrainingConfig
from headbook.training.precision import Precision
from headbook.training.regularising import Regulariser, Term
from headbook.types import Kind, UserError

TRAINING = TrainingConfig(
    updates=6, tokens=64, scale=0.5, warmup=4, precision=Precision.FULL, validate_every=3,
    first_snapshot=64,
)  # fmt: skip
SIZE = Size(1, 16, 32, 4)
TRANSLATION = ModelRun(
    "controlled-sov", SIZE, 200, 0.2, TRAINING, pairs=60, search=Search(1, longest=0.2)
)
LANGUAGE = LanguageRun(
    "controlled-sov", SIZE, 200, 0.2, TRAINING, context=16, lines=60, watched=Watched(2, 0, 3)
)
BASES = {"translation": TRANSLATION, "language": LANGUAGE}
KINDS = {"translation": tuple(Kind), "language": (Kind.DECODER,)}
REGULARISED = {"translation": RegularisedRun, "language": RegularisedLanguageRun}
with_tasks = pytest.mark.parametrize("task", BASES)

Run = ModelRun | LanguageRun
Made = TrainedModel | LanguageModel


def of(base: Run, kind: type[Run], **more: object) -> Run:
    return kind(**{field.name: getattr(base, field.name) for field in fields(base)}, **more)


def regularised(task: str, strength: float = 1.0, term: Term = Term.OUTPUTS) -> Run:
    given = Regulariser(term, strength, KINDS[task])
    return of(BASES[task], REGULARISED[task], regulariser=given)


def made(run: Run, store: Store) -> Made:
    return (trained if isinstance(run, ModelRun) else language_model)(run, store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("runs"))


@pytest.fixture(autouse=True)
def untranslated(monkeypatch: pytest.MonkeyPatch) -> None:
    """BLEU takes longest and is no matter here."""
    monkeypatch.setattr(translation, "score", lambda *_: None)


def columns(found: Made) -> list[list[float]]:
    return found.curve[["train_loss_nats", "valid_loss_nats"]].values.tolist()


@with_tasks
def test_a_regularised_run_is_trained_with_its_penalty(task: str, store: Store):
    found, base = made(regularised(task), store), made(BASES[task], store)
    assert "penalty" not in base.curve and found.curve["penalty"].between(0, 1).all()
    assert columns(found) != columns(base) and found.folder != base.folder
    nothing = made(regularised(task, 0.0), store)
    torch.testing.assert_close(nothing.model().state_dict(), base.model().state_dict())


def test_without_a_regulariser_it_is_the_base_run_under_another_key(store: Store):
    found = made(of(TRANSLATION, RegularisedRun), store)
    assert columns(found) == columns(made(TRANSLATION, store))
    assert found.asked.key != TRANSLATION.ingredients().key


@with_tasks
def test_the_key_is_that_of_the_base_and_the_regulariser(task: str):
    run = regularised(task, 0.3, Term.SPREAD)
    added = {"term": str(Term.SPREAD), "strength": 0.3, "kinds": [str(k) for k in KINDS[task]]}
    assert plain(run) == plain(BASES[task]) | {"regulariser": added}
    assert run.with_seed(7) == replace(run, training=replace(TRAINING, seed=7))
    assert type(run.with_seed(7)) is REGULARISED[task]


@with_tasks
def test_killed_it_ends_as_if_it_had_not_been(
    task: str, store: Store, tmp_path: Path, killed_at: Callable
):
    run = regularised(task)
    whole = made(run, store)
    killed_at(4, lambda: made(run, Store(tmp_path)))
    again = made(run, Store(tmp_path))
    one, other = (each.model().state_dict() for each in (whole, again))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert again.curve["penalty"].tolist() == whole.curve["penalty"].tolist()
    assert columns(again) == columns(whole)


def test_a_translation_model_drops_heads_on_schedule(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The planted fault: a rate that nobody sets leaves the plain training."""
    run, rates = of(TRANSLATION, DroppingModelRun, drop_head=DropHeadSchedule(0.8, 0.4, 0.5)), []
    monkeypatch.setattr(
        language, "set_rate", lambda model, rate: (rates.append(rate), set_rate(model, rate))
    )
    found = made(run, Store(tmp_path / "dropped"))
    assert rates == pytest.approx([run.drop_head.rate(update, 6) for update in range(1, 7)])
    assert columns(found) != columns(made(TRANSLATION, store))
    assert all(math.isfinite(nats) for row in columns(found) for nats in row)
    monkeypatch.setattr(language, "set_rate", lambda model, rate: None)
    assert columns(made(run, Store(tmp_path / "idle"))) == columns(made(TRANSLATION, store))


def test_a_kind_the_model_lacks_is_said_before_training_starts(tmp_path: Path):
    run = replace(
        regularised("language"), regulariser=Regulariser(Term.OUTPUTS, 1.0, (Kind.ENCODER,))
    )
    with pytest.raises(UserError, match="outputs disagree: the model has no encoder") as caught:
        made(run, Store(tmp_path))
    assert "\n" not in str(caught.value) and not list(tmp_path.rglob("*.safetensors"))
