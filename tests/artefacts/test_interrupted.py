"""Trainings of one language's models that are killed, cut at a deadline, or cannot begin."""

import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small import encoder_run, language_run

from headbook.artefacts import trained as trained_models
from headbook.artefacts.encoders import Objective
from headbook.artefacts.language import Setting
from headbook.artefacts.model import Size
from headbook.artefacts.trained import Trainable, Trained, train_missing
from headbook.artefacts.watching import PROBE
from headbook.runs.store import Store
from headbook.types import UserError

RUNS = [*map(language_run, Setting), *map(encoder_run, Objective)]


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: run.label)
def run(request: pytest.FixtureRequest) -> Trainable:
    return request.param


@pytest.fixture(scope="module")
def made(run: Trainable, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return run.trained(Store(tmp_path_factory.mktemp("runs")))


def weights_are_equal(one: Trained, other: Trained) -> bool:
    found = [each.model().state_dict() for each in (one, other)]
    return all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_killed_it_ends_as_if_it_had_not_been(
    run: Trainable, made: Trained, tmp_path: Path, killed_at: Callable
) -> None:
    killed_at(5, lambda: run.trained(Store(tmp_path)))
    again = run.trained(Store(tmp_path))
    assert weights_are_equal(made, again) and made.scores == again.scores
    columns = ["train_loss_nats", "valid_loss_nats"]
    assert made.curve[columns].equals(again.curve[columns])
    assert not list(again.folder.glob("state*"))
    for mine, theirs in zip(getattr(again, "looks", ()), getattr(made, "looks", ()), strict=True):
        assert mine.loss_nats == theirs.loss_nats
        assert all(torch.equal(mine.found[PROBE][at], theirs.found[PROBE][at])
                   for at in mine.found[PROBE])  # fmt: skip


def test_cut_at_a_deadline_it_goes_on(run: Trainable, made: Trained, tmp_path: Path) -> None:
    said: list[str] = []
    given = ((run,), Store(tmp_path), said.append)
    assert not train_missing(*given, deadline=0.0)
    assert said[0].startswith("stopped before ") and run.label in said[0]
    with pytest.MonkeyPatch.context() as patch:
        # it starts, and is late at once
        patch.setattr(trained_models, "time", SimpleNamespace(monotonic=lambda: -1.0))
        assert not train_missing(*given, deadline=0.0)
    assert "stopped at update 1 of 8; the same command continues" in said[-1]
    assert train_missing(*given, deadline=math.inf)
    assert train_missing(*given, deadline=0.0) and said[-1].endswith(": kept")
    assert weights_are_equal(made, run.trained(given[1]))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (language_run(context=100_000), "no segment of 100000"),
        (language_run(size=Size(2, 16, 32, 3)), "not a multiple of heads 3"),
        (language_run(corpus="wikitext-3"), "did you mean"),
        (encoder_run(size=Size(2, 16, 32, 3)), "not a multiple of heads 3"),
        (encoder_run(corpus="x"), "x"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_is_one_line(run: Trainable, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said) as caught:
        run.trained(Store(tmp_path))
    assert "\n" not in str(caught.value)
