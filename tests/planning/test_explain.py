"""Whether a model is kept, and which ingredient would have it trained again."""

from dataclasses import replace
from pathlib import Path

import pytest
from headbook.chapters import config as configs
from headbook.chapters.config import Config

from headbook.artefacts.model import corpus_of, ingredients
from headbook.planning.explain import lines
from headbook.runs.store import Store

pytestmark = pytest.mark.usefixtures("few_generated")
CONFIG = Config("smoke", corpus="controlled-sov")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store that keeps the smoke model of one corpus, as far as its record says."""
    store = Store(tmp_path)
    (run,) = CONFIG.models()
    store.get(ingredients(run, corpus_of(run.corpus, run.pairs)), lambda folder: None)
    return store


def test_an_empty_store_keeps_nothing(tmp_path: Path):
    first, second = lines(CONFIG.models(), Store(tmp_path))
    assert first.startswith(f"controlled-sov seed 0: to be trained ({tmp_path}")
    assert second == "  no model is kept yet"


def test_a_kept_model_is_one_line(store: Store):
    (only,) = lines(CONFIG.models(), store)
    assert only.startswith("controlled-sov seed 0: kept (")
    assert Path(only.partition("(")[2].rstrip(")")).is_dir()


def test_every_difference_has_its_line(store: Store):
    config = replace(CONFIG, seed=4, updates=21)
    first, *differences = lines(config.models(), store)
    assert first.startswith("controlled-sov seed 4: to be trained")
    assert differences == ["  config.training.seed: kept 0, asked 4",
                           "  config.training.updates: kept 20, asked 21"]  # fmt: skip


def test_every_model_of_the_profile_is_told(store: Store, monkeypatch: pytest.MonkeyPatch):
    (kept,) = CONFIG.models()
    several = replace(configs.PROFILES["smoke"], models=(kept, kept.with_seed(1)))
    monkeypatch.setattr(configs, "PROFILES", {"smoke": several})
    told = [line for line in lines(Config("smoke").models(), store) if not line.startswith(" ")]
    assert [line.partition(" (")[0] for line in told] == [
        "controlled-sov seed 0: kept", "controlled-svo seed 1: to be trained",
    ]  # fmt: skip
