"""Profiles are files: names of models become runs, and a wrong entry is one line."""

from pathlib import Path

import pytest
import yaml

from headbook import paths
from headbook.artefacts.catalogue import run
from headbook.artefacts.texts import HELD_OUT
from headbook.chapters.config import Config
from headbook.chapters.profile import PROFILES, read
from headbook.types import UserError

TRAINED = {
    "models": ["controlled-sov-16", "controlled-svo-16"],
    "pruning": {"corpora": ["controlled-sov"], "penalties": [0.5],
                "training": {"like": "controlled-sov-64", "updates": 7}},
}  # fmt: skip


def write(folder: Path, **more: object) -> Path:
    file = folder / "mine.yml"
    file.write_text(yaml.safe_dump({"trained": TRAINED | more, "13_syntactic_heads": {"nulls": 1}}))
    return file


def test_names_become_runs(tmp_path: Path):
    found = read(write(tmp_path))
    assert found.models == (run("controlled-sov-16"), run("controlled-svo-16"))
    assert found.pruning.corpora == ("controlled-sov",) and found.texts == (HELD_OUT,)
    trained = run("controlled-sov-64").training
    assert found.pruning.training.updates == 7 and found.pruning.training.tokens == trained.tokens


def test_further_seeds_come_after_the_first_of_all(tmp_path: Path):
    found = read(write(tmp_path, seeds=2)).models
    assert [(each.corpus, each.training.seed) for each in found] == [
        ("controlled-sov", 0), ("controlled-svo", 0), ("controlled-sov", 1), ("controlled-svo", 1)
    ]  # fmt: skip


def test_a_family_stands_for_its_models(tmp_path: Path):
    family = "controlled-sov-lm-16-wide-heads-{heads}"
    found = read(write(tmp_path, sharing=[family])).sharing
    assert len(found) > 1 and len(set(found)) == len(found)


def test_a_file_of_parameters_trains_nothing(tmp_path: Path):
    file = tmp_path / "pages.yml"
    file.write_text("13_syntactic_heads: {nulls: 1}\n")
    assert read(file) is None
    file.write_text("")
    assert read(file) is None
    assert "released" not in PROFILES and {"smoke", "quick", "laptop", "full"} <= set(PROFILES)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"models": ["no-such"]}, "no-such"),
        ({"modles": ["controlled-sov-16"]}, "modles"),
        ({"pruning": {"corpora": ["controlled-sov"], "penalties": [0.5]}}, "training"),
        ({"pruning": TRAINED["pruning"] | {"penalty": 1}}, "penalty"),
        ({"specialising": {"model": "controlled-sov-16", "pairs": 0}}, "pairs is 0"),
        ({"layers": 3}, "mapping"),
    ],
)
def test_a_wrong_entry_is_one_line_that_names_the_file(more: dict, said: str, tmp_path: Path):
    with pytest.raises(UserError, match=said) as caught:
        read(write(tmp_path, **more))
    assert "mine.yml" in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_of_ones_own_is_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "profiles").mkdir()
    write(tmp_path / "profiles")
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path)
    assert list(PROFILES) == ["mine"]
    assert [each.corpus for each in Config("mine").models()] == ["controlled-sov", "controlled-svo"]
    with pytest.raises(UserError, match="unknown profile 'smoky'; known: mine"):
        Config("smoky")
