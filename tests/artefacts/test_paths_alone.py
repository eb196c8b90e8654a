"""What paths answer is scored by length, and a run is kept."""

import random

import pytest

from headbook.artefacts import paths_alone
from headbook.artefacts.paths_alone import (
    HELD,
    LAYERS,
    NO_LENGTH,
    UP_TO,
    WHOLE,
    PathsRun,
    answered,
    random_path,
)
from headbook.corpora.sets import SORTING
from headbook.models.attention_only import SKIP
from headbook.runs.store import Store


def test_a_random_path_takes_as_many_heads_as_it_is_long():
    drawn = random.Random(0)
    for length in range(LAYERS + 1):
        path = random_path(length, LAYERS, 3, drawn)
        assert len(path) == LAYERS and sum(head != SKIP for head in path) == length
    assert {head for _ in range(50) for head in random_path(6, 6, 3, drawn)} == {0, 1, 2}


def test_all_lengths_together_answer_as_the_network_does_and_a_run_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(paths_alone, "POOL", 200)
    monkeypatch.setattr(paths_alone, "TESTED", 60)
    run = PathsRun(SORTING, updates=3)
    found = answered(run, Store(tmp_path))
    right = {(row["by"], row["length"]): row["right"] for row in found}
    assert right[UP_TO, LAYERS] == right[WHOLE, NO_LENGTH]
    assert right[UP_TO, 0] == right[HELD, 0]
    monkeypatch.setattr(paths_alone, "answers", lambda run: pytest.fail("made again"))
    assert answered(run, Store(tmp_path)) == found
